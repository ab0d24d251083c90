"""`tf.data`."""

from stepscope.programs.data import (
    AUTOTUNE,
    Dataset,
    FixedLengthRecordDataset,
    Iterator,
    TextLineDataset,
    TFRecordDataset,
    get_output_classes,
    get_output_shapes,
    get_output_types,
    make_initializable_iterator,
    make_one_shot_iterator,
)
from stepscope.tf1._absent import absent
from stepscope.tf1.data import experimental

__all__ = [
    "AUTOTUNE", "Dataset", "FixedLengthRecordDataset", "Iterator", "TFRecordDataset",
    "TextLineDataset", "experimental", "get_output_classes", "get_output_shapes",
    "get_output_types", "make_initializable_iterator", "make_one_shot_iterator",
]  # fmt: skip

__getattr__ = absent(__name__)
