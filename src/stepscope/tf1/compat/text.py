"""Text as bytes and bytes as text, whichever was given."""

from typing import Any


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Bytes; text is encoded. `TypeError` for anything else."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, bytes | bytearray):
        return bytes(bytes_or_text)
    raise _neither(bytes_or_text)


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Text; bytes are decoded. `TypeError` for anything else."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes | bytearray):
        return bytes(bytes_or_text).decode(encoding)
    raise _neither(bytes_or_text)


as_str = as_text


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Text of anything: bytes are decoded, the rest is `str(value)`."""
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


def _neither(value: object) -> TypeError:
    return TypeError(f"expected text or bytes, found {type(value).__name__} {value!r}")
