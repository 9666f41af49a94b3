"""File formats: atomic writes, tensor files, HDF5, NPZ, NPY, MAT, and the directory of a run."""
