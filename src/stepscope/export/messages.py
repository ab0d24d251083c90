"""Telling messages apart by what they are, not by which package defined them.

TensorFlow, TensorBoard and Stepscope each have a class of their own for every message. They share
names and bytes, so what an exporter takes is decided by name and handed on as bytes.
"""

from __future__ import annotations

from typing import Any

from stepscope._message_fields import same_name


def wire_bytes(value: Any, message: str, asked_by: str) -> bytes:
    """The bytes of `value`, which must be the message called `message`.

    Raises `TypeError` naming the caller, what it takes and what it was given.
    """
    if not same_name(value, message):
        raise TypeError(
            f"{asked_by} takes a {message} message (Stepscope's, TensorFlow's or TensorBoard's), "
            f"not {describe(value)}"
        )
    data: bytes = value.SerializeToString()
    return data


def describe(value: object) -> str:
    """What to call `value` in an error: its type, or that it is a class and not an instance."""
    if isinstance(value, type):
        return f"the class {value.__module__}.{value.__qualname__} (pass an instance of it)"
    kind = type(value)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return f"an object of type {name}"
