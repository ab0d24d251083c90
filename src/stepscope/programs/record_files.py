"""TFRecord files, written and read by Python: `tf.python_io`."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from stepscope.errors import FailedPreconditionError
from stepscope.local_files import AnyPath, as_tensorflow, local_path
from stepscope.metadata.wire.records import frame, records
from stepscope.ops.io.files import opened

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]


class TFRecordCompressionType:
    """How records are compressed: all of a file at once."""

    NONE: Final = 0
    ZLIB: Final = 1
    GZIP: Final = 2


_NAMES: Final[dict[Any, str]] = {
    None: "", "": "", 0: "", "ZLIB": "ZLIB", 1: "ZLIB", "GZIP": "GZIP", 2: "GZIP",
}  # fmt: skip


class TFRecordOptions:
    """Says how the records of a file are compressed."""

    def __init__(self, compression_type: Any = None, **zlib_options: Any) -> None:
        """`compression_type` is one of `TFRecordCompressionType`, "GZIP", "ZLIB" or "".

        Of zlib's options `compression_level` counts; the others change how fast it works.
        """
        self.compression_type = self.get_compression_type_string(compression_type)
        level = zlib_options.get("compression_level")
        self.compression_level = -1 if level is None else int(level)

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """Of options, a number or a name: one of "GZIP", "ZLIB" and ""."""
        kind = options.compression_type if isinstance(options, cls) else options
        if kind not in _NAMES:
            raise ValueError(f"Not a valid compression_type: {kind!r}; use GZIP, ZLIB or ''.")
        return _NAMES[kind]


class TFRecordWriter:
    """Writes records to a file, which is whole after `close()`.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "two.tfrecord")
    >>> with TFRecordWriter(path) as writer:
    ...     writer.write(b"first")
    ...     writer.write(b"second")
    >>> list(tf_record_iterator(path))
    [b'first', b'second']
    """

    def __init__(self, path: AnyPath, options: Any = None) -> None:
        kind = TFRecordOptions.get_compression_type_string(options)
        level = getattr(options, "compression_level", -1)
        with as_tensorflow(path):
            self._raw: BinaryIO | None = Path(os.fsdecode(local_path(path))).open("wb")  # noqa: SIM115
        self._zip: Any = None
        if kind == "GZIP":
            self._zip = gzip.GzipFile(
                fileobj=self._raw, mode="wb", compresslevel=9 if level < 0 else level
            )
        elif kind == "ZLIB":
            self._zip = _Deflated(self._raw, level)

    def write(self, record: bytes | str) -> None:
        """Append a record."""
        if self._raw is None:
            raise FailedPreconditionError.without_op("Writer is closed.")
        data = record.encode() if isinstance(record, str) else bytes(record)
        (self._zip or self._raw).write(frame(data))

    def flush(self) -> None:
        """Hand what was written to the system."""
        if self._raw is None:
            raise FailedPreconditionError.without_op("Writer is closed.")
        if self._zip is not None:
            self._zip.flush()
        self._raw.flush()

    def close(self) -> None:
        """End the file. A second call does nothing."""
        if self._raw is not None:
            if self._zip is not None:
                self._zip.close()
            self._raw.close()
            self._raw = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class _Deflated:
    """Bytes on their way into a file, by zlib."""

    def __init__(self, file: BinaryIO, level: int) -> None:
        self._file, self._compressor = file, zlib.compressobj(level)

    def write(self, data: bytes) -> None:
        self._file.write(self._compressor.compress(data))

    def flush(self) -> None:
        self._file.write(self._compressor.flush(zlib.Z_FULL_FLUSH))

    def close(self) -> None:
        self._file.write(self._compressor.flush())


def tf_record_iterator(path: AnyPath, options: Any = None) -> Iterator[bytes]:
    """The records of a file, one after the other; DataLossError where it is damaged or cut."""
    name = os.fsdecode(path)
    with opened(name, TFRecordOptions.get_compression_type_string(options)) as file:
        yield from records(file, name)
