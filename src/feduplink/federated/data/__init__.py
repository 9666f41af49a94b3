"""Real data sets: what they are, where they come from, and whether they are here."""

from feduplink.federated.data.checksums import FileState, file_state
from feduplink.federated.data.data_sets import (
    DATA_SETS,
    DataFile,
    DataSet,
    data_directory,
    data_set,
    require,
)
from feduplink.federated.data.fetch import fetch

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
