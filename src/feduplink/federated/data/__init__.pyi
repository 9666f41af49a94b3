from .checksums import FileState, file_state
from .data_sets import (
    DATA_SETS,
    DataFile,
    DataSet,
    data_directory,
    data_set,
    require,
)
from .fetch import fetch

__all__ = [
    "DATA_SETS",
    "DataFile",
    "DataSet",
    "FileState",
    "data_directory",
    "data_set",
    "fetch",
    "file_state",
    "require",
]
