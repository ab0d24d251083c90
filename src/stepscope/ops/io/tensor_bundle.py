"""Checkpoints on disk, in TensorFlow's second format: tensors by name.

A checkpoint has a prefix, `model.ckpt-100`, and files of that name: `.data-00000-of-00001` holds
the values, one after the other, and `.index` is a sorted table of where each is, its dtype, shape
and checksum. A checkpoint of several shards has a data file per shard.

What a caller may rely on: every file is there in full or not at all, and the index comes last, so
what has an index is complete. Writing over a checkpoint replaces one file after the other; who
reads in between finds a checksum that does not match. Values are checked against their checksums
as they are read. What is damaged is a `DataLossError`, what is missing a `NotFoundError`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from stepscope._messages import BundleEntry, BundleHeader, DecodeError, TensorShapeProto, VersionDef
from stepscope.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from stepscope.graph.dtypes import Array, DType, as_dtype, string
from stepscope.graph.shapes import TensorShape
from stepscope.local_files import AnyPath, as_tensorflow, local_path
from stepscope.metadata.wire.checksums import extended, masked
from stepscope.ops.io.sorted_table import entries, read_varint, table, varint
from stepscope.whole_files import whole_file

_HEADER_KEY = b""
_VERSION = 1
_CHUNK = 1 << 22
_UINT32 = struct.Struct("<I")
_UINT64 = struct.Struct("<Q")


def index_file(prefix: str) -> str:
    return f"{prefix}.index"


def data_file(prefix: str, shard: int, shards: int) -> str:
    return f"{prefix}.data-{shard:05d}-of-{shards:05d}"


def _header(shards: int) -> bytes:
    version = VersionDef(producer=_VERSION).SerializeToString()
    message: bytes = BundleHeader(num_shards=shards, version=version).SerializeToString()
    return message


# -- writing -----------------------------------------------------------------------------------


def write_bundle(prefix: AnyPath, tensors: Iterable[tuple[str, DType, Array]]) -> None:
    """Write a checkpoint of one shard: names, dtypes and values, which are kept in this order."""
    prefix = local_path(prefix)
    found: dict[bytes, bytes] = {_HEADER_KEY: _header(1)}
    path = data_file(prefix, 0, 1)
    with as_tensorflow(path), whole_file(path) as file:
        for name, dtype, value in tensors:
            offset = file.tell()
            array = np.asarray(value, dtype=dtype.numpy)
            write = _write_strings if dtype is string else _write_numbers
            checksum = masked(write(file, array))
            found[name.encode()] = BundleEntry(
                dtype=dtype.as_datatype_enum,
                shape=TensorShape(array.shape).as_proto().SerializeToString(),
                offset=offset,
                size=file.tell() - offset,
                crc32c=checksum,
            ).SerializeToString()
    _write_index(prefix, found)


def _write_index(prefix: str, found: dict[bytes, bytes]) -> None:
    path = index_file(prefix)
    with as_tensorflow(path), whole_file(path) as file:
        file.write(table(sorted(found.items())))


def _write_numbers(file: BinaryIO, array: Array) -> int:
    flat = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(-1)
    flat = flat.view(np.uint8)
    crc = 0
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK].tobytes()
        crc = extended(crc, chunk)
        file.write(chunk)
    return crc


def _write_strings(file: BinaryIO, array: Array) -> int:
    """Lengths, their checksum, and the text; what is checked is not the lengths as written."""
    texts: list[bytes] = array.reshape(-1).tolist()
    lengths = [len(text) for text in texts]
    crc = _crc_of_lengths(lengths)
    file.write(b"".join(map(varint, lengths)))
    for part in (_UINT32.pack(masked(crc)), *texts):
        crc = extended(crc, part)
        file.write(part)
    return crc


def _crc_of_lengths(lengths: Sequence[int]) -> int:
    packed = [(_UINT32 if n <= 0xFFFFFFFF else _UINT64).pack(n) for n in lengths]
    return extended(0, b"".join(packed))


def merge_bundles(prefixes: Sequence[str], destination: AnyPath, delete_old: bool) -> None:
    """Make one checkpoint of several, whose data files become its shards.

    With `delete_old` the directories that are empty then are removed.
    """
    destination = local_path(destination)
    readers = [BundleReader(prefix) for prefix in prefixes]
    count = sum(reader.shards for reader in readers)
    merged: dict[bytes, bytes] = {_HEADER_KEY: _header(count)}
    shard = 0
    for reader in readers:
        for name in reader.names():
            entry = reader.message(name)
            if name.encode() in merged:
                raise InvalidArgumentError.without_op(
                    f"{name!r} is in more than one of the checkpoints {', '.join(prefixes)}.",
                )
            entry.shard_id += shard
            merged[name.encode()] = entry.SerializeToString()
        with as_tensorflow(destination):
            Path(destination).parent.mkdir(parents=True, exist_ok=True)
            for i in range(reader.shards):
                source = data_file(reader.prefix, i, reader.shards)
                Path(source).replace(data_file(destination, shard + i, count))
        shard += reader.shards
    _write_index(destination, merged)
    for reader in readers:
        if reader.prefix != destination:
            Path(index_file(reader.prefix)).unlink(missing_ok=True)
            if delete_old:
                with suppress(OSError):
                    Path(reader.prefix).parent.rmdir()


# -- reading -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """What a checkpoint says of a tensor without its value; `dtype` is None for one unknown."""

    dtype: DType | None
    shape: tuple[int, ...]


class BundleReader:
    """A checkpoint, opened for reading."""

    def __init__(self, prefix: AnyPath) -> None:
        """Read the index; NotFoundError if there is none, DataLossError if it is damaged."""
        self.prefix = local_path(prefix)
        self._index = index_file(self.prefix)
        self._entries = dict(entries(self._read_index(), self._index))
        header = self._parsed(BundleHeader, self._entries.pop(_HEADER_KEY, None), "header")
        if header.endianness:
            raise UnimplementedError.without_op(
                f"{self._index} is of a big-endian machine; such files are not read."
            )
        self.shards: int = header.num_shards

    def _read_index(self) -> bytes:
        path = Path(self._index)
        if not path.exists():
            if Path(self.prefix).is_file():
                raise DataLossError.without_op(
                    f"Unable to open table file {self.prefix}: it is no checkpoint, or one of the "
                    f"first format, which is not read. Checkpoints have a file {path.name}.",
                )
            raise NotFoundError.without_op(
                "Unsuccessful TensorSliceReader constructor: Failed to find any matching files "
                f"for {self.prefix}: there is no {self._index}.",
            )
        with as_tensorflow(self._index):
            return path.read_bytes()

    def _parsed(self, kind: Any, data: bytes | None, what: str) -> Any:
        if data is not None:
            with suppress(DecodeError):
                return kind.FromString(data)
        raise DataLossError.without_op(f"{self._index} is damaged: its {what} cannot be read.")

    def names(self) -> list[str]:
        """The names of all tensors, in order."""
        return [key.decode(errors="replace") for key in self._entries if not _is_slice(key)]

    def __contains__(self, name: str) -> bool:
        return name.encode() in self._entries

    def message(self, name: str) -> Any:
        """What the index says; NotFoundError for a name that is not there."""
        data = self._entries.get(name.encode())
        if data is None:
            raise NotFoundError.without_op(f"Key {name} not found in checkpoint {self.prefix}")
        return self._parsed(BundleEntry, data, f"entry of {name!r}")

    def describe(self, name: str) -> StoredTensor:
        """The dtype and shape of a tensor."""
        return self._described(name, self.message(name))

    def _described(self, name: str, entry: Any) -> StoredTensor:
        shape = TensorShape(self._parsed(TensorShapeProto, entry.shape, f"shape of {name!r}")).known
        if shape is None:
            raise DataLossError.without_op(f"{self._index} is damaged: {name!r} has no shape.")
        with suppress(TypeError):
            return StoredTensor(as_dtype(entry.dtype), shape)
        return StoredTensor(None, shape)

    def read(self, name: str) -> Array:
        """The value of a tensor, in an array of its own."""
        entry = self.message(name)
        stored = self._described(name, entry)
        if stored.dtype is None or (not stored.dtype.is_fixed_size and stored.dtype is not string):
            raise UnimplementedError.without_op(
                f"{name!r} in {self.prefix} has the dtype number {entry.dtype}, which "
                "is not supported.",
            )
        if entry.slices:
            raise UnimplementedError.without_op(
                f"{name!r} in {self.prefix} is stored in {len(entry.slices)} slices, "
                "as partitioned variables are, which is not supported.",
            )
        count = int(np.prod(stored.shape, dtype=object))
        path = data_file(self.prefix, entry.shard_id, self.shards)
        with as_tensorflow(path), Path(path).open("rb") as file:
            if entry.offset + entry.size > os.fstat(file.fileno()).st_size:
                raise self._lost(path, name, "the file ends before it does")
            file.seek(entry.offset)
            if stored.dtype is string:
                array, crc = self._strings(file, count, entry.size, name)
            elif count * stored.dtype.size != entry.size:
                raise self._lost(path, name, f"{entry.size} bytes do not make {stored.shape}")
            else:
                array, crc = _numbers(file, count, stored.dtype)
        if masked(crc) != entry.crc32c:
            raise self._lost(
                path, name,
                f"Checksum does not match: stored {entry.crc32c} vs. calculated on the restored "
                f"bytes {masked(crc)}",
            )  # fmt: skip
        return array.reshape(stored.shape)

    def _lost(self, path: str, name: str, why: str) -> DataLossError:
        return DataLossError.without_op(f"{name!r} cannot be read from {path}: {why}.")

    def _strings(self, file: BinaryIO, count: int, size: int, name: str) -> tuple[Array, int]:
        data = file.read(size)
        at, lengths = 0, []
        try:
            if count > size:
                raise IndexError
            for _ in range(count):
                length, at = read_varint(data, at)
                lengths.append(length)
        except IndexError:
            raise self._lost(file.name, name, "its lengths are missing") from None
        checksum, at = data[at : at + 4], at + 4
        crc = _crc_of_lengths(lengths)
        if checksum != _UINT32.pack(masked(crc)) or at + sum(lengths) != size:
            raise self._lost(file.name, name, "Checksum of its lengths does not match")
        array = np.empty(count, dtype=object)
        for i, length in enumerate(lengths):
            array[i] = data[at : at + length]
            at += length
        return array, extended(crc, data[at - sum(lengths) - 4 :])


def _numbers(file: BinaryIO, count: int, dtype: DType) -> tuple[Array, int]:
    array = np.empty(count, dtype=dtype.numpy.newbyteorder("<"))
    crc, at, raw = 0, 0, array.view(np.uint8)
    for chunk in _chunks(file, raw.size):
        crc = extended(crc, chunk)
        raw[at : at + len(chunk)] = np.frombuffer(chunk, np.uint8)
        at += len(chunk)
    return array.astype(dtype.numpy, copy=False), crc


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0 and (chunk := file.read(min(size, _CHUNK))):
        size -= len(chunk)
        yield chunk


def _is_slice(key: bytes) -> bool:
    """Keys of slices of a partitioned tensor begin with a zero byte; names do not."""
    return key.startswith(b"\0")
