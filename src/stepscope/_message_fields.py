"""Single fields of protobuf messages: putting values in, naming them, checking them.

Messages of TensorFlow, of TensorBoard and of ours are different Python classes with the same
bytes, so whatever crosses from one to another goes through bytes.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor

from stepscope.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "check_enums",
    "is_repeated",
    "leaf_fields",
    "merge_value",
    "same_name",
    "short_name",
    "unknown_field",
]

_WHOLE, _FRACTION = "a whole number", "a number"
_TAKES = {
    FieldDescriptor.CPPTYPE_INT32: _WHOLE,
    FieldDescriptor.CPPTYPE_INT64: _WHOLE,
    FieldDescriptor.CPPTYPE_UINT32: _WHOLE,
    FieldDescriptor.CPPTYPE_UINT64: _WHOLE,
    FieldDescriptor.CPPTYPE_DOUBLE: _FRACTION,
    FieldDescriptor.CPPTYPE_FLOAT: _FRACTION,
    FieldDescriptor.CPPTYPE_BOOL: "True or False",
    FieldDescriptor.CPPTYPE_STRING: "text",
}
_FAMILIES = frozenset({"tensorflow", "tensorboard", "stepscope"})


def same_name(value: object, name: str) -> bool:
    """Whether a value is TensorFlow's, TensorBoard's or our message called `name`.

    `name` is the name inside the package, such as `RunOptions` or `RunOptions.Experimental`.
    """
    descriptor = getattr(value, "DESCRIPTOR", None)
    full_name = getattr(descriptor, "full_name", "")
    if not isinstance(full_name, str) or isinstance(value, type):
        return False
    package, _, rest = full_name.partition(".")
    return package in _FAMILIES and rest == name


def is_repeated(field: Any) -> bool:
    """Whether a field is a list or a map, in every version of protobuf."""
    repeated = getattr(field, "is_repeated", None)
    return bool(repeated) if repeated is not None else field.label == field.LABEL_REPEATED


def _is_map(field: Any) -> bool:
    kind = field.message_type
    return kind is not None and is_repeated(field) and kind.GetOptions().map_entry


def short_name(descriptor: Any) -> str:
    """The name of a message inside its package."""
    return str(descriptor.full_name).partition(".")[2]


def _close_to(name: str, allowed: list[str]) -> str:
    close = difflib.get_close_matches(name, allowed, n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(repr(match) for match in close)}?" if close else ";"
    return f"{hint} its fields are {', '.join(allowed)}"


def unknown_field(
    descriptor: Any, name: str, aliases: Mapping[str, str] = {}
) -> InvalidOptionError:
    """The error for a name that a message does not have, with what it has."""
    allowed = sorted([*(field.name for field in descriptor.fields), *aliases])
    return InvalidOptionError(
        f"{short_name(descriptor)} has no field {name!r}{_close_to(name, allowed)}"
    )


def _enum_error(descriptor: Any, field: Any, value: object) -> InvalidOptionError:
    allowed = ", ".join(f"{v.name} ({v.number})" for v in field.enum_type.values)
    return InvalidOptionError(
        f"{short_name(descriptor)}.{field.name} is {value!r}; allowed are {allowed}"
    )


def _enum_number(descriptor: Any, field: Any, value: Any) -> int:
    if isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            raise _enum_error(descriptor, field, value)
        return int(known.number)
    if not hasattr(value, "__index__"):
        raise TypeError(
            f"{short_name(descriptor)}.{field.name} takes a number or a name of "
            f"{field.enum_type.name}, not {value!r} of type {type(value).__name__}"
        )
    number = value.__index__()
    if number not in field.enum_type.values_by_number:
        raise _enum_error(descriptor, field, value)
    return int(number)


def _set_scalar(message: Any, field: Any, value: Any) -> None:
    try:
        setattr(message, field.name, value)
    except ValueError as error:
        raise _value_error(message.DESCRIPTOR, field, value, error) from None
    except TypeError:
        raise TypeError(
            f"{short_name(message.DESCRIPTOR)}.{field.name} takes {_TAKES[field.cpp_type]}, "
            f"not {value!r} of type {type(value).__name__}"
        ) from None


def _value_error(
    descriptor: Any, field: Any, value: object, error: ValueError
) -> InvalidOptionError:
    return InvalidOptionError(f"{short_name(descriptor)}.{field.name} is {value!r}: {error}")


def _merge_message(target: Any, field_path: str, value: Any) -> None:
    descriptor = target.DESCRIPTOR
    if isinstance(value, dict):
        for name, item in value.items():
            merge_value(target, name, item)
    elif same_name(value, short_name(descriptor)):
        target.MergeFromString(value.SerializeToString())
    else:
        raise TypeError(
            f"{field_path} takes a {short_name(descriptor)} "
            f"(of Stepscope, TensorFlow or TensorBoard) or a dict, not {type(value).__name__}"
        )
    check_enums(target)


def merge_value(message: Any, name: str, value: Any) -> None:
    """Put one value into one field, as a keyword of a generated message's constructor does.

    Nested messages may be of TensorFlow's, of TensorBoard's or of our classes, or dicts; None
    leaves the field alone.
    """
    descriptor = message.DESCRIPTOR
    field = descriptor.fields_by_name.get(name)
    if field is None:
        raise unknown_field(descriptor, name)
    path = f"{short_name(descriptor)}.{name}"
    if value is None:
        return
    if _is_map(field):
        _merge_map(getattr(message, name), field, path, value)
    elif is_repeated(field):
        _extend(message, field, path, value)
    elif field.message_type is not None:
        part = getattr(message, name)
        part.SetInParent()
        _merge_message(part, path, value)
    elif field.enum_type is not None:
        setattr(message, name, _enum_number(descriptor, field, value))
    else:
        _set_scalar(message, field, value)


def _merge_map(target: Any, field: Any, path: str, value: Any) -> None:
    if not hasattr(value, "items"):
        raise TypeError(f"{path} takes a dict, not {type(value).__name__}")
    of_messages = field.message_type.fields_by_name["value"].message_type is not None
    for key, item in value.items():
        if of_messages:
            _merge_message(target[key], path, item)
        else:
            try:
                target[key] = item
            except ValueError as error:
                raise InvalidOptionError(f"{path}[{key!r}] is {item!r}: {error}") from None


def _extend(message: Any, field: Any, path: str, value: Any) -> None:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{path} takes a list, not {type(value).__name__}")
    items = getattr(message, field.name)
    for item in value:
        if field.message_type is not None:
            _merge_message(items.add(), path, item)
        elif field.enum_type is not None:
            items.append(_enum_number(message.DESCRIPTOR, field, item))
        else:
            try:
                items.append(item)
            except ValueError as error:
                raise _value_error(message.DESCRIPTOR, field, item, error) from None


def check_enums(message: Any) -> None:
    """Raise `InvalidOptionError` for an enum field, at any depth, that holds none of its values."""
    for field, value in message.ListFields():
        if field.enum_type is not None:
            numbers = value if is_repeated(field) else (value,)
            for number in numbers:
                if number not in field.enum_type.values_by_number:
                    raise _enum_error(message.DESCRIPTOR, field, number)
        elif _is_map(field):
            if field.message_type.fields_by_name["value"].message_type is not None:
                for part in value.values():
                    check_enums(part)
        elif field.message_type is not None:
            for part in value if is_repeated(field) else (value,):
                check_enums(part)


def leaf_fields(descriptor: Any, *, depth: int, into_lists: bool) -> Iterator[str]:
    """Dotted names of the fields that hold values, `depth` messages deep."""
    for field in descriptor.fields:
        inner = field.message_type
        opens = inner is not None and not _is_map(field) and (into_lists or not is_repeated(field))
        if opens and depth > 1:
            for name in leaf_fields(inner, depth=depth - 1, into_lists=into_lists):
                yield f"{field.name}.{name}"
        else:
            yield field.name
