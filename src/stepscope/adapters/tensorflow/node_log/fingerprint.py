"""Which build of TensorFlow a library of ours fits: told by what TensorFlow's own library exports.

A version does not tell: distributions build the same version anew, and what they build does not fit
the wheels from PyPI. Nor does the build-id that linkers leave: `tensorflow-cpu` 2.21 has none, and
each Python's wheel of `tensorflow` 2.16 to 2.20 has another, though nothing but the code for GPUs
is different. So it is the table of exported symbols: the hash of each name, its kind and its size,
with the size of all code. Code compiled from another source, or by another compiler, differs in
size somewhere among some 80,000 symbols. Addresses are left out, as code for GPUs shifts them.

Guarantees.
- Only some 3 MB of the file are read, in 5 to 20 ms; it need not be loaded.
- What is no ELF file of 64 bits, or has no table of sections, is told by its first bytes and its
  size.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np

_DIGITS: Final = 32
_HEAD: Final = 1 << 16
_LARGEST: Final = 1 << 26
"""Bytes of a table that are too many to be one."""
_DYNAMIC_SYMBOLS, _GNU_HASH = 11, 0x6FFFFFF6
_CODE: Final = 4
"""The flag of a section that is executed."""
_SYMBOL: Final = 24
_KEPT: Final = (*range(6), *range(16, _SYMBOL))
"""The bytes of a symbol that tell its name, kind and size; between them are section and address."""


class _Section(NamedTuple):
    """The fields of a section's header, as ELF has them for 64 bits."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


def fingerprint(library: Path) -> str:
    """32 hexadecimal digits, the same for all files that export the same, of the same sizes."""
    digest = hashlib.sha256()
    with library.open("rb") as file:
        sections = _sections(file)
        for section in sections:
            if section.flags & _CODE:
                digest.update(section.size.to_bytes(8))
            elif section.kind in (_DYNAMIC_SYMBOLS, _GNU_HASH):
                file.seek(section.offset)
                digest.update(_told(section, file.read(min(section.size, _LARGEST))))
        if not sections:
            file.seek(0)
            digest.update(file.read(_HEAD) + str(library.stat().st_size).encode())
    return digest.hexdigest()[:_DIGITS]


def _told(section: _Section, content: bytes) -> bytes:
    """What of a section's content tells one build from another."""
    if section.kind == _GNU_HASH:
        return content
    symbols = np.frombuffer(content, np.uint8, len(content) // _SYMBOL * _SYMBOL)
    return symbols.reshape(-1, _SYMBOL)[:, _KEPT].tobytes()


def _sections(file: BinaryIO) -> list[_Section]:
    """The sections of the file; none where it has no table of them."""
    head = file.read(64)
    if len(head) < 64 or head[:5] != b"\x7fELF\x02" or head[5] not in (1, 2):
        return []
    order = "<" if head[5] == 1 else ">"
    (offset,) = struct.unpack_from(f"{order}Q", head, 40)
    size, count = struct.unpack_from(f"{order}2H", head, 58)
    layout = struct.Struct(f"{order}2I4Q2I2Q")
    if size != layout.size or not offset:
        return []
    file.seek(offset)
    table = file.read(size * count)
    if len(table) != size * count:
        return []
    return [_Section._make(fields) for fields in layout.iter_unpack(table)]
