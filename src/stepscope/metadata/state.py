"""What a `RunMetadata` object holds at one moment, and which of it is the truth.

Guarantees:

- A state begins either as an engine's recording or as a message; it is never refilled. Replacing
  the content of a `RunMetadata` object swaps its state, which is one assignment: a reader sees the
  old run or the new one, never a mixture.
- Of a recording nothing is decoded until somebody looks, and each part at most once, under the
  state's lock: two readers that come at the same time get the same columns.
- A part of the message is encoded when somebody asks for it. From the moment `step_stats` was
  handed out the message is the truth: columns are decoded from it again whenever its bytes have
  changed since. The same holds for every other field of TensorFlow's that was handed out.
- Our fields (status and so on) come from the recording until somebody asks for the whole message
  to write to it; from then on the message is the truth for them as well.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from stepscope import _messages as pb
from stepscope.metadata.columns import OpColumns
from stepscope.metadata.memory.allocations import AllocationColumns
from stepscope.metadata.recording import LoggedRecording, Shared
from stepscope.metadata.run_fields import FIELDS
from stepscope.metadata.wire.allocation_codec import (
    allocations_of,
    decode_allocations,
    encode_allocations,
)
from stepscope.metadata.wire.decode import decode_ops
from stepscope.metadata.wire.encode import encode_ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.metadata.recording import Recording
    from stepscope.metadata.run_fields import RunField

__all__ = ["TENSORFLOW_FIELDS", "State"]

_T = TypeVar("_T")

TENSORFLOW_FIELDS = tuple(
    field.name for field in pb.RunMetadataMessage.DESCRIPTOR.fields if field.number < 1000
)
"""The fields of `RunMetadata` that TensorFlow knows."""

_OURS = "ours"
_GRAPHS = ("cost_graph", "partition_graphs", "function_graphs")


class State:
    """One run, as a recording, as a message, or as both."""

    __slots__ = (
        "_encoded",
        "_handed_out",
        "_known",
        "_lock",
        "_logged",
        "_message",
        "_ops_bytes",
        "_recorded",
        "_size",
        "_unread",
    )

    def __init__(
        self,
        message: Any = None,
        recording: Recording | Callable[[], Recording] | None = None,
        unread_step_stats: bytes | None = None,
        size: int | None = None,
    ) -> None:
        self._lock = threading.RLock()
        self._message = message
        self._recorded = recording
        self._logged = recording if isinstance(recording, LoggedRecording) else None
        # Fields that the message has of the recording.
        self._encoded: set[str] = set()
        self._known: dict[str, Any] = {}
        self._handed_out = False
        self._ops_bytes: bytes | None = None
        # The bytes of `step_stats`, known to be whole, as long as the message does not have them.
        self._unread = unread_step_stats
        # How many bytes the message was read from, where that is known.
        self._size = size

    @property
    def _recording(self) -> Recording | None:
        """What the engine handed over, made by whoever looks first."""
        with self._lock:
            if callable(self._recorded):
                self._recorded = self._recorded()
            return self._recorded

    # -- the message -----------------------------------------------------------------------

    def message(self) -> Any:
        """The whole message, to read."""
        with self._lock:
            for field in (*TENSORFLOW_FIELDS, _OURS):
                self._encode(field)
            return self._own_message()

    def hand_out(self, field: str) -> Any:
        """One of TensorFlow's fields, to read or to write to."""
        with self._lock:
            self._encode(field)
            if field == "step_stats":
                self._watch_step_stats()
            return getattr(self._own_message(), field)

    def hand_out_message(self) -> Any:
        """The whole message, to read or to write to; it is the truth from now on."""
        with self._lock:
            message = self.message()
            self._watch_step_stats()
            self._recorded = None
            ops = self._known.get("ops")
            self._known = {} if ops is None else {"ops": ops}
            return message

    def _own_message(self) -> Any:
        if self._message is None:
            self._message = pb.RunMetadataMessage()
        return self._message

    def _watch_step_stats(self) -> None:
        if not self._handed_out:
            # Without columns there is nothing to grow stale: they come when somebody asks.
            if "ops" in self._known:
                self._ops_bytes = _bytes_of(self._own_message().step_stats)
            self._handed_out = True

    def _encode(self, field: str) -> None:
        if field == "step_stats" and self._unread is not None:
            self._own_message().step_stats.MergeFromString(self._unread)
            self._unread = None
        if field in self._encoded or self._recording is None:
            return
        recording, message = self._recording, self._own_message()
        self._encoded.add(field)
        if field == "step_stats":
            message.step_id = recording.step_id
            if len(self.ops()):
                encode_ops(self.ops(), message, recording.step_id)
        elif field == "cost_graph":
            if recording.cost_graph is not None:
                _copy(message.cost_graph, self._once(field, recording.cost_graph))
        elif field == "session_metadata":
            if recording.session_metadata is not None:
                _copy(message.session_metadata, recording.session_metadata)
        elif field == _OURS:
            self._encode_ours(recording, message)
        else:
            produce: Callable[[], Any] | None = getattr(recording, field)
            for graph in self._once(field, produce) if produce is not None else ():
                _copy(getattr(message, field).add(), graph)

    def _encode_ours(self, recording: Recording, message: Any) -> None:
        if recording.allocations is not None:
            encode_allocations(self.allocations(), message.allocations)
        for field in FIELDS:
            if field.is_in(recording):
                field.encode(self.value(field), message)

    # -- columns ---------------------------------------------------------------------------

    def ops(self) -> OpColumns:
        """The executions, decoded at most once per content."""
        with self._lock:
            if self._handed_out:
                data = _bytes_of(self._message.step_stats)
                if data != self._ops_bytes:
                    self._known["ops"] = decode_ops(self._message, data)
                    if self._recording is None or self._recording.allocations is None:
                        self._known.pop("allocations", None)
                    self._ops_bytes = data
            ops: OpColumns = self._once("ops", self._decode_ops)
            return ops

    def undecoded(self) -> tuple[Any, int] | None:
        """A message nobody has looked at since it was read, and its size; None at other times."""
        with self._lock:
            if self._size is None or self._handed_out or self._unread is not None:
                return None
            return None if "ops" in self._known else (self._message, self._size)

    def decoded(self, ops: OpColumns) -> None:
        """Take columns that somebody made of the `undecoded` message."""
        with self._lock:
            if not self._handed_out:
                self._known.setdefault("ops", ops)

    def recorded_ops(self) -> OpColumns | None:
        """What an engine recorded, unless a message was handed out or is all there is."""
        with self._lock:
            return None if self._recording is None or self._handed_out else self.ops()

    def logged(self) -> LoggedRecording | None:
        """The recording as it was handed over, if it is a logged one and the truth to this day.

        Whoever looked at its columns changed nothing; what was handed out of the message may have.
        """
        with self._lock:
            return None if self._handed_out or self._encoded else self._logged

    def recorded(self) -> Recording | None:
        """The recording, as far as it is the truth; None where a message is all there is.

        Its parts are those that readers of this state see, each decoded at most once for both.
        What was handed out as a message is taken from there.
        """
        with self._lock:
            run = self._recording
            if run is None:
                return None
            graphs: dict[str, Any] = {field: self._recorded_graphs(run, field) for field in _GRAPHS}
            fields: dict[str, Any] = {
                field.at: partial(self.value, field)
                for field in FIELDS
                if _made_late(getattr(run, field.at, None))
            }
            if "session_metadata" in self._encoded:
                fields["session_metadata"] = self._set_field("session_metadata")
            return replace(
                run,
                ops=self.ops,
                allocations=None if run.allocations is None else self.allocations,
                log=None if self._handed_out else run.log,
                pattern=None if self._handed_out else run.pattern,
                **graphs,
                **fields,
            )

    def _recorded_graphs(self, run: Recording, field: str) -> Callable[[], Any] | None:
        if field in self._encoded:
            if field == "cost_graph":
                found = self._set_field(field)
                return None if found is None else lambda: found
            return lambda: list(getattr(self._own_message(), field))
        produce: Callable[[], Any] | None = getattr(run, field)
        if produce is None or not _made_late(produce):
            return produce
        return lambda: self._once(field, produce)

    def _set_field(self, field: str) -> Any:
        message = self._own_message()
        return getattr(message, field) if message.HasField(field) else None

    def _decode_ops(self) -> OpColumns:
        if self._recording is None:
            return decode_ops(self._own_message(), self._unread)
        return OpColumns.empty() if self._recording.ops is None else self._recording.ops()

    def allocations(self) -> AllocationColumns:
        """All allocations and frees where an engine recorded them, else what step stats tell."""
        with self._lock:
            ops = self.ops()
            columns: AllocationColumns = self._once(
                "allocations", lambda: self._decode_allocations(ops)
            )
            return columns

    def _decode_allocations(self, ops: OpColumns) -> AllocationColumns:
        recording = self._recording
        if recording is not None:
            return allocations_of(ops) if recording.allocations is None else recording.allocations()
        recorded = self._own_message().allocations
        return decode_allocations(recorded) if len(recorded.time_ns) else allocations_of(ops)

    # -- our fields ------------------------------------------------------------------------

    def _once(self, part: str, produce: Callable[[], Any]) -> Any:
        with self._lock:
            if part not in self._known:
                self._known[part] = produce()
            return self._known[part]

    def value(self, field: RunField[_T]) -> _T:
        """One of our fields; what an engine recorded is made once."""
        logged = self.logged() if field.in_log else None
        if logged is not None:
            found: _T = getattr(logged, field.name)
            return found
        with self._lock:
            recording = self._recording
            if recording is not None:
                kept: _T = self._once(field.name, lambda: field.of(recording))
                return kept
            # The message may be written to at any time, and these parts are small.
            return field.decode(self._own_message())


def _made_late(found: Any) -> bool:
    """Whether a part of a recording is made when it is asked for, and for that recording alone."""
    return callable(found) and not isinstance(found, Shared)


def _copy(target: Any, source: Any) -> None:
    """Copy between messages of whatever family: through bytes."""
    target.ParseFromString(source.SerializeToString())
    target.SetInParent()


def _bytes_of(message: Any) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data
