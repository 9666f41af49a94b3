"""Data sets of the tasks: description, download and verification."""

from feduplink.federated.data.datasets import (
    DATA_SETS,
    DataFile,
    DataSet,
    FileState,
    data_directory,
    data_set,
    data_state,
    fetch,
    file_state,
    require,
)

__all__ = [
    "DATA_SETS",
    "DataFile",
    "DataSet",
    "FileState",
    "data_directory",
    "data_set",
    "data_state",
    "fetch",
    "file_state",
    "require",
]
