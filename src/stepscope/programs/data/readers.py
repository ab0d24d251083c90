"""Datasets of files, by name."""

from __future__ import annotations

from typing import Any

from stepscope.graph import apply_op, convert_to_tensor
from stepscope.graph.dtypes import int64, string
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import SCALAR
from stepscope.ops.arrays import shaping
from stepscope.programs.data.dataset import Dataset, slices

_BUFFER = 256 * 1024


class _FileDataset(Dataset):
    """The content of files, one after the other."""

    def __init__(self, filenames: Any, num_parallel_reads: Any, name: str | None) -> None:
        if isinstance(filenames, Dataset):
            files = filenames
        else:
            names = convert_to_tensor(filenames, string)
            flat = shaping.reshape(names, [-1], name="flat_filenames")
            files = slices(flat, is_files=True)

        def read_one_file(filename: Tensor) -> Dataset:
            return Dataset(self._node(filename), string, SCALAR)

        if num_parallel_reads is None:
            made = files.flat_map(read_one_file, name=name)
        else:
            made = files.interleave(
                read_one_file, cycle_length=num_parallel_reads,
                num_parallel_calls=num_parallel_reads, name=name,
            )  # fmt: skip
        super().__init__(made._variant_tensor, string, SCALAR)

    def _node(self, filename: Tensor) -> Tensor:
        raise NotImplementedError


class TFRecordDataset(_FileDataset):
    """The records of TFRecord files, as strings."""

    def __init__(
        self, filenames: Any, compression_type: str | None = None, buffer_size: Any = None,
        num_parallel_reads: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        self._compression, self._buffer = compression_type, buffer_size
        super().__init__(filenames, num_parallel_reads, name)

    def _node(self, filename: Tensor) -> Tensor:
        return _of_files("TFRecordDataset", filename, self._compression, self._buffer)


class TextLineDataset(_FileDataset):
    """The lines of text files, without their ends."""

    def __init__(
        self, filenames: Any, compression_type: str | None = None, buffer_size: Any = None,
        num_parallel_reads: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        self._compression, self._buffer = compression_type, buffer_size
        super().__init__(filenames, num_parallel_reads, name)

    def _node(self, filename: Tensor) -> Tensor:
        return _of_files("TextLineDataset", filename, self._compression, self._buffer)


class FixedLengthRecordDataset(_FileDataset):
    """Pieces of files, `record_bytes` long each."""

    def __init__(
        self, filenames: Any, record_bytes: Any, header_bytes: Any = None, footer_bytes: Any = None,
        buffer_size: Any = None, compression_type: str | None = None,
        num_parallel_reads: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        self._lengths = [
            ("record_bytes", record_bytes), ("header_bytes", header_bytes or 0),
            ("footer_bytes", footer_bytes or 0), ("buffer_size", buffer_size or _BUFFER),
        ]  # fmt: skip
        self._compression = compression_type
        super().__init__(filenames, num_parallel_reads, name)

    def _node(self, filename: Tensor) -> Tensor:
        record, header, footer, buffer = [
            convert_to_tensor(value, int64, name) for name, value in self._lengths
        ]
        compression = convert_to_tensor(self._compression or "", string, "compression_type")
        return apply_op(
            "FixedLengthRecordDatasetV2", filename, header, record, footer, buffer, compression
        ).values()[0]


def _of_files(op_type: str, filename: Tensor, compression: str | None, size: Any) -> Tensor:
    kind = convert_to_tensor(compression or "", string, "compression_type")
    buffer = convert_to_tensor(_BUFFER if size is None else size, int64, "buffer_size")
    return apply_op(op_type, filename, kind, buffer).values()[0]
