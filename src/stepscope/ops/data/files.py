"""Datasets of what is in files: records, lines, pieces of one length."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.registry import KernelNode
from stepscope.metadata.wire.records import records
from stepscope.ops.data.registering import METADATA, register_dataset
from stepscope.ops.data.stages import (
    DatasetPlace,
    DatasetValue,
    Element,
    ElementCall,
    Elements,
    IteratorStages,
    StageCounts,
)
from stepscope.ops.io.files import opened, text_of


class _Files(DatasetValue):
    """What is in files, one file after the other."""

    def __init__(self, place: DatasetPlace, names: Any, compression: Any) -> None:
        super().__init__(place)
        listed = np.asarray(names, dtype=object).reshape(-1)
        self.names = [os.fsdecode(name) for name in listed]
        self.compression = text_of(compression).decode()

    def content(self, name: str) -> Iterator[bytes]:
        """The elements of one file."""
        raise NotImplementedError

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Reading(self, pipeline, stage)


class _Reading(Elements):
    def __init__(self, dataset: _Files, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._rest = (item for name in dataset.names for item in dataset.content(name))

    def take(self, call: ElementCall) -> Element | None:
        del call
        item = next(self._rest, None)
        return None if item is None else (np.array(item, dtype=object),)


# -- TFRecordDataset ---------------------------------------------------------------------------


class _Records(_Files):
    kind = "TFRecordDataset"

    def __init__(
        self, _node: KernelNode, place: DatasetPlace, names: Any, compression: Any, _buffer: Any
    ) -> None:
        super().__init__(place, names, compression)

    def content(self, name: str) -> Iterator[bytes]:
        with opened(name, self.compression) as file:
            yield from records(file, name)


# -- TextLineDataset ---------------------------------------------------------------------------


class _Lines(_Files):
    kind = "TextLineDataset"

    def __init__(
        self, _node: KernelNode, place: DatasetPlace, names: Any, compression: Any, _buffer: Any
    ) -> None:
        super().__init__(place, names, compression)

    def content(self, name: str) -> Iterator[bytes]:
        with opened(name, self.compression) as file:
            for line in file:
                yield line.removesuffix(b"\n").removesuffix(b"\r")


# -- FixedLengthRecordDatasetV2 ----------------------------------------------------------------


class _Pieces(_Files):
    kind = "FixedLengthRecordDataset"

    def __init__(
        self,
        _node: KernelNode,
        place: DatasetPlace,
        names: Any,
        header: Any,
        record: Any,
        footer: Any,
        _buffer: Any,
        compression: Any,
    ) -> None:
        super().__init__(place, names, compression)
        self._header, self._size, self._footer = int(header), int(record), int(footer)
        if self._size <= 0:
            raise InvalidArgumentError.without_op("`record_bytes` must be > 0")

    def content(self, name: str) -> Iterator[bytes]:
        with opened(name, self.compression) as file:
            data = file.read()
        body = len(data) - self._header - self._footer
        if body < 0 or body % self._size:
            raise InvalidArgumentError.without_op(
                f"Excluding the header ({self._header} bytes) and footer ({self._footer} bytes), "
                f"input file {name!r} has body length {body} bytes, which is not an exact "
                f"multiple of the record length ({self._size} bytes).",
            )
        for at in range(self._header, self._header + body, self._size):
            yield data[at : at + self._size]


_NAMES = ["filenames: string", "compression_type: string", "buffer_size: int64"]
register_dataset("TFRecordDataset", _Records, _NAMES, [METADATA])
register_dataset("TextLineDataset", _Lines, _NAMES, [METADATA])
register_dataset(
    "FixedLengthRecordDatasetV2", _Pieces,
    ["filenames: string", "header_bytes: int64", "record_bytes: int64", "footer_bytes: int64",
     "buffer_size: int64", "compression_type: string"],
    [METADATA],
)  # fmt: skip
