"""Readers: they take work units (names of files) from a queue and give records, one by one.

A reader belongs to the session, by name. Its calls are served one at a time: a call that waits for
a work unit holds the others up, as its record comes before theirs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from stepscope.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from stepscope.graph.build import apply_op
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, register
from stepscope.graph.shapes import SCALAR, TensorShape, unknown_shape
from stepscope.metadata.wire.records import records
from stepscope.ops.io.files import opened, text_of
from stepscope.ops.resources import RunContext
from stepscope.ops.state.queue_cells import QueueCell

__all__ = [
    "FixedLengthRecordReader",
    "IdentityReader",
    "ReaderBase",
    "TFRecordReader",
    "TextLineReader",
    "WholeFileReader",
]

Record = tuple[bytes, bytes]
_KIND: Final = "reader"


class ReaderCell:
    """A reader inside a session: the work unit it is at, and how many records it gave."""

    def __init__(
        self, name: str, content: Callable[[str], Iterator[Record]], one_each: bool = False
    ) -> None:
        self.name = name
        self._one_each = one_each  # a work unit is over with its only record
        self._content = content
        self._lock = threading.Lock()
        self._records: Iterator[Record] | None = None
        self.produced = 0
        self.completed = 0

    def read(self, context: RunContext, queue: QueueCell) -> Record:
        """The next record, waiting for work units while the one at hand has no more."""
        with self._lock:
            while True:
                found = self._next()
                if found is not None:
                    return found
                self._begin(context, queue)

    def read_up_to(self, context: RunContext, queue: QueueCell, count: int) -> list[Record]:
        """At least one record and at most `count`, without waiting for more work than needed."""
        with self._lock:
            found: list[Record] = []
            while not found:
                while len(found) < count and (one := self._next()) is not None:
                    found.append(one)
                if not found:
                    self._begin(context, queue)
            return found

    def reset(self) -> None:
        """Forget the work unit at hand and all counts."""
        with self._lock:
            self._records = None
            self.produced = self.completed = 0

    def _next(self) -> Record | None:
        if self._records is None:
            return None
        found = next(self._records, None)
        if found is None:
            self._records = None
            self.completed += 1
        else:
            self.produced += 1
            if self._one_each:
                self._records = None
                self.completed += 1
        return found

    def _begin(self, context: RunContext, queue: QueueCell) -> None:
        try:
            ((unit, *_),) = queue.dequeue(context, 1)
        except OutOfRangeError as error:
            raise OutOfRangeError.without_op(error.message) from None
        self._records = self._content(os.fsdecode(text_of(unit)))


def _reader_kernel(
    content: Callable[[KernelNode, str], Iterator[Record]],
) -> Callable[[KernelNode], Kernel]:
    def kernel(node: KernelNode) -> Kernel:
        container, shared = node.attr("container").decode(), node.attr("shared_name").decode()
        name = shared or node.name
        key = f"{container}/{name}" if container else name
        cell = node.resources.get_or_create(
            _KIND,
            key,
            lambda: ReaderCell(
                name, lambda unit: content(node, unit), content in (_whole, _identity)
            ),
        )
        return Kernel(lambda: cell, cost_ns=50)

    return kernel


# -- what each kind reads ----------------------------------------------------------------------


def _whole(_node: KernelNode, name: str) -> Iterator[Record]:
    with opened(name) as file:
        yield name.encode(), file.read()


def _identity(_node: KernelNode, name: str) -> Iterator[Record]:
    yield os.fsencode(name), os.fsencode(name)


def _lines(node: KernelNode, name: str) -> Iterator[Record]:
    skipped = node.attr("skip_header_lines")
    with opened(name) as file:
        for number, line in enumerate(file, 1):
            if number > skipped:
                text = line.removesuffix(b"\n").removesuffix(b"\r")
                yield f"{name}:{number}".encode(), text


def _pieces(node: KernelNode, name: str) -> Iterator[Record]:
    header, size, footer = (node.attr(f"{part}_bytes") for part in ("header", "record", "footer"))
    hop = node.attr("hop_bytes") or size
    encoding = node.attr("encoding").decode()
    if encoding not in ("", "ZLIB", "GZIP"):
        raise InvalidArgumentError.without_op(
            f"encoding must be ZLIB, GZIP or empty, not {encoding!r}"
        )
    with opened(name, encoding) as file:
        data = file.read()
    body = len(data) - header - footer
    if body < 0 or (body >= size and (body - size) % hop):
        raise InvalidArgumentError.without_op(
            f"Excluding the header ({header} bytes) and footer ({footer} bytes), input file {name} "
            f"has body length {body} bytes, which is not an exact multiple of the record length "
            f"({size} bytes)."
        )
    for number, at in enumerate(range(header, header + body - size + 1, hop)):
        yield f"{name}:{number}".encode(), data[at : at + size]


def _records(node: KernelNode, name: str) -> Iterator[Record]:
    at = 0
    with opened(name, node.attr("compression_type").decode()) as file:
        for record in records(file, name):
            yield f"{name}:{at}".encode(), record
            at += len(record) + 16


_OWNER = ("container: string = ''", "shared_name: string = ''")
for _name, _content, _attrs in (
    ("WholeFileReaderV2", _whole, _OWNER),
    ("IdentityReaderV2", _identity, _OWNER),
    ("TextLineReaderV2", _lines, ("skip_header_lines: int = 0", *_OWNER)),
    ("FixedLengthRecordReaderV2", _pieces,
     ("header_bytes: int = 0", "record_bytes: int", "footer_bytes: int = 0", "hop_bytes: int = 0",
      *_OWNER, "encoding: string = ''")),
    ("TFRecordReaderV2", _records, (*_OWNER, "compression_type: string = ''")),
):  # fmt: skip
    register(
        _name,
        outputs=("reader_handle: resource",),
        attrs=_attrs,
        shape=lambda _c: SCALAR,
        kernel=_reader_kernel(_content),
        stateful=True,
    )

# -- what is asked of them ---------------------------------------------------------------------


def _text(value: bytes) -> Any:
    return np.array(value, dtype=object)


def _read_kernel(_node: KernelNode) -> Kernel:
    def call(context: RunContext, reader: ReaderCell, queue: QueueCell) -> Any:
        key, value = reader.read(context, queue)
        return _text(key), _text(value)

    return Kernel(call, context=True, blocking=True)


def _read_up_to_kernel(_node: KernelNode) -> Kernel:
    def call(context: RunContext, reader: ReaderCell, queue: QueueCell, count: Any) -> Any:
        if int(count) < 1:
            raise InvalidArgumentError.without_op(f"num_records must be positive, not {count}")
        found = reader.read_up_to(context, queue, int(count))
        columns = np.empty((2, len(found)), dtype=object)
        for i, (key, value) in enumerate(found):
            columns[0, i], columns[1, i] = key, value
        return columns[0], columns[1]

    return Kernel(call, context=True, blocking=True)


def _no_outputs(_context: ShapeContext) -> list[TensorShape]:
    return []


def _reset_kernel(_node: KernelNode) -> Kernel:
    return Kernel(lambda reader: reader.reset())


def _count_kernel(name: str) -> Callable[[KernelNode], Kernel]:
    return lambda _node: Kernel(lambda reader: np.int64(getattr(reader, name)))


register(
    "ReaderReadV2",
    inputs=("reader_handle: resource", "queue_handle: resource"),
    outputs=("key: string", "value: string"),
    shape=lambda _c: [SCALAR, SCALAR],
    kernel=_read_kernel,
    stateful=True,
)
register(
    "ReaderReadUpToV2",
    inputs=("reader_handle: resource", "queue_handle: resource", "num_records: int64"),
    outputs=("keys: string", "values: string"),
    shape=lambda _c: [unknown_shape(1), unknown_shape(1)],
    kernel=_read_up_to_kernel,
    stateful=True,
)
register(
    "ReaderNumRecordsProducedV2",
    inputs=("reader_handle: resource",),
    outputs=("records_produced: int64",),
    shape=lambda _c: SCALAR,
    kernel=_count_kernel("produced"),
    stateful=True,
)
register(
    "ReaderNumWorkUnitsCompletedV2",
    inputs=("reader_handle: resource",),
    outputs=("units_completed: int64",),
    shape=lambda _c: SCALAR,
    kernel=_count_kernel("completed"),
    stateful=True,
)
register(
    "ReaderResetV2",
    inputs=("reader_handle: resource",),
    shape=_no_outputs,
    kernel=_reset_kernel,
    stateful=True,
)

# -- as programs name them ---------------------------------------------------------------------


class ReaderBase:
    r"""A reader in a graph: `read(queue)` gives the next record of the files named in the queue.

    >>> import os, tempfile
    >>> import stepscope.tf1 as tf
    >>> path = os.path.join(tempfile.mkdtemp(), "lines")
    >>> with open(path, "w") as file:
    ...     _ = file.write("first\nsecond\n")
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     queue = tf.FIFOQueue(1, tf.string, [[]])
    ...     key, line = tf.TextLineReader().read(queue)
    ...     session.run(queue.enqueue(path))
    ...     session.run(line), session.run(line)
    (b'first', b'second')
    """

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        return self._supports_serialize

    def read(self, queue: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """(key, value) of the next record; `queue` gives the names of files."""
        key, value = apply_op("ReaderReadV2", self._reader_ref, _ref(queue), name=name).values()
        return key, value

    def read_up_to(
        self, queue: Any, num_records: Any, name: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Keys and values of at most so many records of one file."""
        keys, values = apply_op(
            "ReaderReadUpToV2", self._reader_ref, _ref(queue), num_records, name=name
        ).values()
        return keys, values

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """How many records it gave."""
        return apply_op("ReaderNumRecordsProducedV2", self._reader_ref, name=name).values()[0]

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """How many files it is through with."""
        return apply_op("ReaderNumWorkUnitsCompletedV2", self._reader_ref, name=name).values()[0]

    def reset(self, name: str | None = None) -> Operation:
        """An op that makes it begin anew."""
        return apply_op("ReaderResetV2", self._reader_ref, name=name)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Not supported by the embedded engine."""
        raise UnimplementedError.without_op(
            f"serialize_state({name!r}): readers of the embedded engine cannot be saved; use "
            "tf.data for input whose position is kept."
        )

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """Not supported by the embedded engine."""
        raise UnimplementedError.without_op(
            f"restore_state({state!r}, {name!r}): readers of the embedded engine cannot be "
            "restored; use tf.data for input whose position is kept."
        )


def _ref(queue: Any) -> Any:
    return queue if isinstance(queue, Tensor) else queue.queue_ref


def _made(op_type: str, name: str | None, **attrs: Any) -> Tensor:
    given = {key: value for key, value in attrs.items() if value is not None}
    return apply_op(op_type, name=name, **given).values()[0]


class WholeFileReader(ReaderBase):
    """The name of each file, and all that is in it."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(_made("WholeFileReaderV2", name), supports_serialize=True)


class IdentityReader(ReaderBase):
    """The work units themselves, as keys and values."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(_made("IdentityReaderV2", name), supports_serialize=True)


class TextLineReader(ReaderBase):
    """The lines of files, without their ends."""

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__(_made("TextLineReaderV2", name, skip_header_lines=skip_header_lines))


class FixedLengthRecordReader(ReaderBase):
    """Pieces of files, all of one length, `hop_bytes` apart."""

    def __init__(
        self, record_bytes: int, header_bytes: int | None = None, footer_bytes: int | None = None,
        hop_bytes: int | None = None, name: str | None = None, encoding: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(_made(
            "FixedLengthRecordReaderV2", name, record_bytes=record_bytes,
            header_bytes=header_bytes, footer_bytes=footer_bytes, hop_bytes=hop_bytes,
            encoding=encoding,
        ))  # fmt: skip


class TFRecordReader(ReaderBase):
    """The records of TFRecord files."""

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        kind = getattr(options, "compression_type", options) or ""
        numbered: dict[Any, str] = {0: "", 1: "ZLIB", 2: "GZIP"}
        kind = numbered.get(kind, kind)
        super().__init__(_made("TFRecordReaderV2", name, compression_type=kind))
