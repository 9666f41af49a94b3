"""Files: atomic writes, tensor files, HDF5, and the directory of a run."""
