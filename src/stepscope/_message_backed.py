"""Classes of ours around protobuf messages, which cannot be subclassed.

`MessageBacked` gives a message of ours what legacy code expects of a generated one (constructor
keywords, fields, constants, the protobuf methods, pickling) and adds two things: names and values
that do not exist are refused with an error that lists what does, and messages of TensorFlow, of
TensorBoard and of ours mix, because everything that crosses from one to another goes through bytes.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, ClassVar, Self

from stepscope.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["MessageBacked", "check_enums", "leaf_fields", "merge_value", "same_name"]

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


def _is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)
    return bool(repeated) if repeated is not None else field.label == field.LABEL_REPEATED


def _is_map(field: Any) -> bool:
    kind = field.message_type
    return kind is not None and _is_repeated(field) and kind.GetOptions().map_entry


def _short_name(descriptor: Any) -> str:
    return str(descriptor.full_name).partition(".")[2]


def _close_to(name: str, allowed: list[str]) -> str:
    close = difflib.get_close_matches(name, allowed, n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(repr(match) for match in close)}?" if close else ";"
    return f"{hint} its fields are {', '.join(allowed)}"


def _unknown_field(
    descriptor: Any, name: str, aliases: Mapping[str, str] = {}
) -> InvalidOptionError:
    allowed = sorted([*(field.name for field in descriptor.fields), *aliases])
    return InvalidOptionError(
        f"{_short_name(descriptor)} has no field {name!r}{_close_to(name, allowed)}"
    )


def _enum_error(descriptor: Any, field: Any, value: object) -> InvalidOptionError:
    allowed = ", ".join(f"{v.name} ({v.number})" for v in field.enum_type.values)
    return InvalidOptionError(
        f"{_short_name(descriptor)}.{field.name} is {value!r}; allowed are {allowed}"
    )


def _enum_number(descriptor: Any, field: Any, value: Any) -> int:
    if isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            raise _enum_error(descriptor, field, value)
        return int(known.number)
    if not hasattr(value, "__index__"):
        raise TypeError(
            f"{_short_name(descriptor)}.{field.name} takes a number or a name of "
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


def _value_error(
    descriptor: Any, field: Any, value: object, error: ValueError
) -> InvalidOptionError:
    return InvalidOptionError(f"{_short_name(descriptor)}.{field.name} is {value!r}: {error}")


def _merge_message(target: Any, field_path: str, value: Any) -> None:
    descriptor = target.DESCRIPTOR
    if isinstance(value, dict):
        for name, item in value.items():
            merge_value(target, name, item)
    elif same_name(value, _short_name(descriptor)):
        target.MergeFromString(value.SerializeToString())
    else:
        raise TypeError(
            f"{field_path} takes a {_short_name(descriptor)} "
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
        raise _unknown_field(descriptor, name)
    path = f"{_short_name(descriptor)}.{name}"
    if value is None:
        return
    if _is_map(field):
        _merge_map(getattr(message, name), field, path, value)
    elif _is_repeated(field):
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
            numbers = value if _is_repeated(field) else (value,)
            for number in numbers:
                if number not in field.enum_type.values_by_number:
                    raise _enum_error(message.DESCRIPTOR, field, number)
        elif _is_map(field):
            if field.message_type.fields_by_name["value"].message_type is not None:
                for part in value.values():
                    check_enums(part)
        elif field.message_type is not None:
            for part in value if _is_repeated(field) else (value,):
                check_enums(part)


def leaf_fields(descriptor: Any, *, depth: int, into_lists: bool) -> Iterator[str]:
    """Dotted names of the fields that hold values, `depth` messages deep."""
    for field in descriptor.fields:
        inner = field.message_type
        opens = inner is not None and not _is_map(field) and (into_lists or not _is_repeated(field))
        if opens and depth > 1:
            for name in leaf_fields(inner, depth=depth - 1, into_lists=into_lists):
                yield f"{field.name}.{name}"
        else:
            yield field.name


def _restore(kind: type[MessageBacked], data: bytes) -> MessageBacked:
    return kind.FromString(data)


class MessageBacked:
    """Base of our classes around one protobuf message.

    Subclasses set `_message_class`; enums, their values and nested messages become attributes of
    the class. Reading a nested field gives the protobuf message inside, so that
    `options.experimental.use_run_handler_pool = True` works; assigning a message to a field
    copies it. Two objects are equal when their bytes say the same, also across TensorFlow's and
    TensorBoard's classes.
    """

    __slots__ = ("_held",)

    _message_class: ClassVar[Any]
    _aliases: ClassVar[Mapping[str, str]] = {}
    DESCRIPTOR: ClassVar[Any]

    _held: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        message_class = cls.__dict__.get("_message_class")
        if message_class is None:
            return
        descriptor = message_class.DESCRIPTOR
        cls.DESCRIPTOR = descriptor
        for enum in descriptor.enum_types:
            setattr(cls, enum.name, getattr(message_class, enum.name))
            for value in enum.values:
                setattr(cls, value.name, value.number)
        for nested in descriptor.nested_types:
            if not nested.GetOptions().map_entry and nested.name not in cls.__dict__:
                members = {
                    "__module__": cls.__module__,
                    "__qualname__": f"{cls.__qualname__}.{nested.name}",
                    "__doc__": f"`{_short_name(nested)}`, with TensorFlow's fields.",
                    "__slots__": (),
                    "_message_class": getattr(message_class, nested.name),
                }
                setattr(cls, nested.name, type(nested.name, (MessageBacked,), members))

    def __init__(self, **fields: Any) -> None:
        object.__setattr__(self, "_held", self._message_class())
        message = self._message()
        for name, value in fields.items():
            self._merge(message, name, value)
        self._check(message)

    # -- what subclasses change ------------------------------------------------------------

    def _message(self) -> Any:
        """The message inside, complete and up to date."""
        return self._held

    def _mutable(self) -> Any:
        """The message inside, about to be handed out or written to."""
        return self._message()

    def _replace(self, message: Any) -> None:
        """Make another message of the same class the content of this object."""
        object.__setattr__(self, "_held", message)

    @classmethod
    def _check(cls, message: Any) -> None:
        """Raise `InvalidOptionError` for values that the fields alone would let through."""

    # -- fields ----------------------------------------------------------------------------

    def _merge(self, message: Any, name: str, value: Any) -> None:
        if name not in self.DESCRIPTOR.fields_by_name and name not in self._aliases:
            raise _unknown_field(self.DESCRIPTOR, name, self._aliases)
        merge_value(message, self._aliases.get(name, name), value)

    def __getattr__(self, name: str) -> Any:
        actual = self._aliases.get(name, name)
        if name.startswith("__") or actual not in self.DESCRIPTOR.fields_by_name:
            raise _unknown_field(self.DESCRIPTOR, name, self._aliases)
        return getattr(self._mutable(), actual)

    def __setattr__(self, name: str, value: Any) -> None:
        fresh = self._message_class()
        self._merge(fresh, name, value)
        self._check(fresh)
        actual = self._aliases.get(name, name)
        message = self._mutable()
        field = self.DESCRIPTOR.fields_by_name[actual]
        if field.message_type is None and not _is_repeated(field):
            if value is None:
                raise TypeError(f"{_short_name(self.DESCRIPTOR)}.{name} cannot be set to None")
            setattr(message, actual, getattr(fresh, actual))
        else:
            message.ClearField(actual)
            message.MergeFrom(fresh)

    def __dir__(self) -> list[str]:
        fields = (field.name for field in self.DESCRIPTOR.fields)
        return sorted({*super().__dir__(), *fields, *self._aliases})

    # -- protobuf's methods ----------------------------------------------------------------

    @classmethod
    def _read(cls, data: bytes) -> Any:
        message = cls._message_class()
        message.MergeFromString(bytes(data))
        check_enums(message)
        cls._check(message)
        return message

    def _bytes_of(self, other: object, doing: str) -> bytes:
        name = _short_name(self.DESCRIPTOR)
        if not same_name(other, name):
            raise TypeError(
                f"{doing} takes a {name} (of Stepscope, TensorFlow or TensorBoard), "
                f"not {type(other).__name__}"
            )
        data: bytes = other.SerializeToString()  # type: ignore[attr-defined]
        return data

    def SerializeToString(self, **kwargs: Any) -> bytes:
        """The wire bytes, readable by TensorFlow and TensorBoard."""
        data: bytes = self._message().SerializeToString(**kwargs)
        return data

    SerializePartialToString = SerializeToString

    def ParseFromString(self, serialized: bytes) -> int:
        """Replace the content by what the bytes hold; gives the number of bytes read."""
        self._replace(self._read(serialized))
        return len(serialized)

    def MergeFromString(self, serialized: bytes) -> int:
        """Merge what the bytes hold into the content; gives the number of bytes read."""
        merged = self._message_class()
        merged.CopyFrom(self._message())
        merged.MergeFrom(self._read(serialized))
        self._replace(merged)
        return len(serialized)

    @classmethod
    def FromString(cls, serialized: bytes) -> Self:
        """A new object from wire bytes."""
        new = cls()
        new.ParseFromString(serialized)
        return new

    def CopyFrom(self, other: object) -> None:
        """Replace the content by that of a message of the same name."""
        if other is not self:
            self.ParseFromString(self._bytes_of(other, "CopyFrom"))

    def MergeFrom(self, other: object) -> None:
        """Merge a message of the same name into this one."""
        self.MergeFromString(self._bytes_of(other, "MergeFrom"))

    def Clear(self) -> None:
        """Set every field back to its default."""
        self._replace(self._message_class())

    def _field_name(self, name: str) -> str:
        actual = self._aliases.get(name, name)
        known = self.DESCRIPTOR.fields_by_name
        if actual not in known and actual not in self.DESCRIPTOR.oneofs_by_name:
            raise _unknown_field(self.DESCRIPTOR, name, self._aliases)
        return actual

    def HasField(self, field_name: str) -> bool:
        """Whether a field that can be absent is there."""
        return bool(self._message().HasField(self._field_name(field_name)))

    def ClearField(self, field_name: str) -> None:
        """Set a field back to its default."""
        self._mutable().ClearField(self._field_name(field_name))

    def WhichOneof(self, oneof_group: str) -> str | None:
        """The name of the field that is set in a group of alternatives."""
        name: str | None = self._message().WhichOneof(oneof_group)
        return name

    def ByteSize(self) -> int:
        """The number of bytes `SerializeToString` gives."""
        return int(self._message().ByteSize())

    def ListFields(self) -> list[tuple[Any, Any]]:
        """Descriptor and value of every field that is set."""
        return list(self._mutable().ListFields())

    def IsInitialized(self) -> bool:
        """Always true: no field is required."""
        return True

    def SetInParent(self) -> None:
        """Nothing: the object is no part of another."""

    # -- Python's methods ------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not same_name(other, _short_name(self.DESCRIPTOR)):
            return NotImplemented
        return self._canonical(self._message()) == self._canonical_of(other)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def _canonical(cls, message: Any) -> bytes:
        data: bytes = message.SerializeToString(deterministic=True)
        return data

    @classmethod
    def _canonical_of(cls, other: Any) -> bytes:
        if isinstance(other, MessageBacked):
            return cls._canonical(other._message())
        return cls._canonical(cls._message_class.FromString(other.SerializeToString()))

    def __repr__(self) -> str:
        return str(self._message())

    def __str__(self) -> str:
        return str(self._message())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.SerializeToString())

    def __copy__(self) -> Self:
        return type(self).FromString(self.SerializeToString())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = self.__copy__()
        memo[id(self)] = new
        return new
