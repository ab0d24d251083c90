"""Classes of ours around protobuf messages, which cannot be subclassed.

`MessageBacked` gives a message of ours what legacy code expects of a generated one (constructor
keywords, fields, constants, the protobuf methods, pickling) and adds two things: names and values
that do not exist are refused with an error that lists what does, and messages of TensorFlow, of
TensorBoard and of ours mix.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from google.protobuf.message_factory import GetMessageClass

from stepscope._message_fields import (
    check_enums,
    is_repeated,
    merge_value,
    same_name,
    short_name,
    unknown_field,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MessageBacked"]


_CLASSES: dict[str, type[MessageBacked]] = {}


def part(value: Any) -> Any:
    """A field's value as we hand it out: nested messages in our classes, live."""
    descriptor = getattr(value, "DESCRIPTOR", None)
    if descriptor is not None:
        kind = _CLASSES.get(descriptor.full_name)
        if kind is None:
            members = {"__slots__": (), "_message_class": type(value)}
            kind = type(descriptor.name, (MessageBacked,), members)
        view = object.__new__(kind)
        object.__setattr__(view, "_held", value)
        return view
    return MessageList(value) if hasattr(value, "add") else value


class MessageList(MutableSequence[Any]):
    """A repeated field of messages: takes ours, TensorFlow's and TensorBoard's, and copies them."""

    __slots__ = ("_items",)

    def __init__(self, items: Any) -> None:
        self._items = items

    def add(self, **fields: Any) -> Any:
        """A new entry with these fields."""
        new = part(self._items.add())
        for name, value in fields.items():
            setattr(new, name, value)
        return new

    def insert(self, index: int, value: Any) -> None:
        """Copy a message into the list."""
        if index < len(self._items):
            raise TypeError("messages can be appended to a repeated field, not inserted into it")
        new = part(self._items.add())
        try:
            new.CopyFrom(value)
        except Exception:
            del self._items[-1]
            raise

    def __getitem__(self, index: Any) -> Any:
        found = self._items[index]
        return [part(item) for item in found] if isinstance(index, slice) else part(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        self[index].CopyFrom(value)

    def __delitem__(self, index: Any) -> None:
        del self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if hasattr(other, "__iter__") else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._items)


def _restore(kind: type[MessageBacked], data: bytes) -> MessageBacked:
    return kind.FromString(data)


class MessageBacked:
    """Base of our classes around one protobuf message.

    Subclasses set `_message_class`; enums, their values and nested messages become attributes of
    the class. Reading a nested field gives a live part of the message, so that
    `options.experimental.use_run_handler_pool = True` and `config.device_filters.append(...)` do
    what they say; assigning a message to a field copies it. Two objects are equal when their bytes
    say the same, also across TensorFlow's and TensorBoard's classes.
    """

    __slots__ = ("_held",)

    _message_class: ClassVar[Any]
    _aliases: ClassVar[Mapping[str, str]] = {}
    _parts_are_ours: ClassVar[bool] = True
    """Whether nested messages come back in our classes, or as protobuf's own."""
    DESCRIPTOR: ClassVar[Any]

    _held: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        message_class = cls.__dict__.get("_message_class")
        if message_class is None:
            return
        descriptor = message_class.DESCRIPTOR
        cls.DESCRIPTOR = descriptor
        _CLASSES.setdefault(descriptor.full_name, cls)
        for enum in descriptor.enum_types:
            setattr(cls, enum.name, getattr(message_class, enum.name))
            for value in enum.values:
                setattr(cls, value.name, value.number)
        for nested in descriptor.nested_types:
            if not nested.GetOptions().map_entry and nested.name not in cls.__dict__:
                members = {
                    "__module__": cls.__module__,
                    "__qualname__": f"{cls.__qualname__}.{nested.name}",
                    "__doc__": f"`{short_name(nested)}`, with TensorFlow's fields.",
                    "__slots__": (),
                    "_message_class": GetMessageClass(nested),
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
        self._held.CopyFrom(message)

    @classmethod
    def _check(cls, message: Any) -> None:
        """Raise `InvalidOptionError` for values that the fields alone would let through."""

    # -- fields ----------------------------------------------------------------------------

    def _merge(self, message: Any, name: str, value: Any) -> None:
        if name not in self.DESCRIPTOR.fields_by_name and name not in self._aliases:
            raise unknown_field(self.DESCRIPTOR, name, self._aliases)
        merge_value(message, self._aliases.get(name, name), value)

    def __getattr__(self, name: str) -> Any:
        actual = self._aliases.get(name, name)
        if name.startswith("__") or actual not in self.DESCRIPTOR.fields_by_name:
            raise unknown_field(self.DESCRIPTOR, name, self._aliases)
        value = getattr(self._mutable(), actual)
        return part(value) if self._parts_are_ours else value

    def __setattr__(self, name: str, value: Any) -> None:
        fresh = self._message_class()
        self._merge(fresh, name, value)
        self._check(fresh)
        actual = self._aliases.get(name, name)
        message = self._mutable()
        field = self.DESCRIPTOR.fields_by_name[actual]
        if field.message_type is None and not is_repeated(field):
            if value is None:
                raise TypeError(f"{short_name(self.DESCRIPTOR)}.{name} cannot be set to None")
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
        name = short_name(self.DESCRIPTOR)
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
            raise unknown_field(self.DESCRIPTOR, name, self._aliases)
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
        if not same_name(other, short_name(self.DESCRIPTOR)):
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
