"""The fields of a run, each declared once, in the class body of `RunMetadata`.

A `RunMetadata` holds what an engine recorded (a `Recording`) or a message (read from a file, or
written to by its user). A `RunField` says where its value is in either, and how it is written into
a message. From that one declaration follow the attribute of `RunMetadata`, what `State` decodes and
keeps, and what `SerializeToString`, `save` and the store write.

`status`, for example, is declared as `RunField(decode_status, encode_status)`:

- asked for its `status`, a run that an engine recorded gives `recording.status`; where the
  recording has a callable under that name, it is called once, by whoever asks first;
- a run that is a message gives `decode_status(message)`;
- of a recorded run that is saved, `encode_status(recording.status, message)` makes the message's
  field; fields of which the recording has nothing (None) are left out.

Without functions a field is a number or a text that the message has under the same name:

>>> from stepscope.metadata import Recording, RunMetadata
>>> run = RunMetadata.of(Recording(engine="embedded", step_id=7, sources=lambda: {"a": "t.py:3"}))
>>> run.engine, run.step_id, run.tag, run.sources, run.status.ok
('embedded', 7, '', {'a': 't.py:3'}, True)
>>> again = RunMetadata.FromString(run.SerializeToString())
>>> again.engine, again.step_id, again.tag, again.sources, again.status.ok
('embedded', 7, '', {'a': 't.py:3'}, True)

`ops` and `allocations` are no such fields: what a user writes to `step_stats` shows in them, so
`State` looks after both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.metadata.recording import Recording
    from stepscope.metadata.run_metadata import RunMetadata

__all__ = ["FIELDS", "RunField", "TensorFlowField"]

_T = TypeVar("_T")

FIELDS: Final[list[RunField[Any]]] = []
"""All fields, in the order of their declaration, which is that of writing them."""


class RunField(Generic[_T]):
    """One field of ours in a `RunMetadata`, as an attribute of that class.

    Args:
        decode: The value that a message has; without it, the message's field of this name.
        encode: Writes a value into a message; without it, into the message's field of this name.
        at: What a `Recording` calls it, where that is not its name.
        empty: What a recorded run has where its recording has nothing; None without it.
        own: Makes what each who asks is given; of a value that could be written to, a copy.
        in_log: Whether a `LoggedRecording` has it, too, so that nothing is to be decoded for it.

    """

    def __init__(
        self,
        decode: Callable[[Any], _T] | None = None,
        encode: Callable[[Any, Any], None] | None = None,
        *,
        at: str | None = None,
        empty: Callable[[], Any] | None = None,
        own: Callable[[Any], _T] | None = None,
        in_log: bool = False,
    ) -> None:
        self._decode = decode
        self._encode = encode
        self._at = at
        self._empty = empty
        self._own = own
        self.in_log = in_log

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name.lstrip("_")
        self.at = self._at or self.name
        FIELDS.append(self)

    @overload
    def __get__(self, run: None, owner: type) -> Self: ...
    @overload
    def __get__(self, run: RunMetadata, owner: type) -> _T: ...
    def __get__(self, run: RunMetadata | None, owner: type) -> Self | _T:
        if run is None:
            return self
        value = run.state.value(self)
        return value if self._own is None else self._own(value)

    def is_in(self, recording: Recording) -> bool:
        """Whether a recording has anything of it."""
        return getattr(recording, self.at, None) is not None

    def of(self, recording: Recording) -> _T:
        """The value that an engine recorded."""
        found: Any = getattr(recording, self.at, None)
        if callable(found):
            found = found()
        if found is None and self._empty is not None:
            found = self._empty()
        value: _T = found if self._own is None else self._own(found)
        return value

    def decode(self, message: Any) -> _T:
        """The value that a message has."""
        value: _T = getattr(message, self.name) if self._decode is None else self._decode(message)
        return value

    def encode(self, value: _T, message: Any) -> None:
        """Write a value into a message."""
        if self._encode is None:
            setattr(message, self.name, value)
        else:
            self._encode(value, message)


class TensorFlowField:
    """One of TensorFlow's fields in a `RunMetadata`: protobuf's own message, made when asked for.

    What is written to it is the truth from then on.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, run: RunMetadata | None, owner: type) -> Any:
        return self if run is None else run.state.hand_out(self._name)
