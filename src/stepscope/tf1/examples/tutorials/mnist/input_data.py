"""`tensorflow.examples.tutorials.mnist.input_data`."""

from stepscope.programs.mnist import (
    DataSet,
    Datasets,
    dense_to_one_hot,
    extract_images,
    extract_labels,
    read_data_sets,
)
from stepscope.tf1._absent import absent

__all__ = [
    "DataSet", "Datasets", "dense_to_one_hot", "extract_images", "extract_labels",
    "read_data_sets",
]  # fmt: skip

__getattr__ = absent(__name__)
