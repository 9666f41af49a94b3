"""Real data sets: what they are, where they come from, and whether they are here."""

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
