"""tf.data as programs use it: datasets and iterators, over the op types of `stepscope.ops.data`."""

from stepscope.programs.data.dataset import (
    AUTOTUNE,
    Dataset,
    get_output_classes,
    get_output_shapes,
    get_output_types,
    make_initializable_iterator,
    make_one_shot_iterator,
)
from stepscope.programs.data.iterator import Iterator
from stepscope.programs.data.readers import (
    FixedLengthRecordDataset,
    TextLineDataset,
    TFRecordDataset,
)

__all__ = [
    "AUTOTUNE", "Dataset", "FixedLengthRecordDataset", "Iterator", "TFRecordDataset",
    "TextLineDataset", "get_output_classes", "get_output_shapes", "get_output_types",
    "make_initializable_iterator", "make_one_shot_iterator",
]  # fmt: skip
