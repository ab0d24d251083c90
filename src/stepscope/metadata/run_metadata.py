"""`RunMetadata`: what one run did."""

from __future__ import annotations

import os
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from stepscope import _messages as pb
from stepscope._message_backed import MessageBacked
from stepscope._message_fields import same_name
from stepscope.errors import InvalidOptionError
from stepscope.metadata.device_names import named_device
from stepscope.metadata.memory.allocations import AllocationColumns
from stepscope.metadata.run_fields import RunField, TensorFlowField
from stepscope.metadata.state import TENSORFLOW_FIELDS, State
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.tables import table_of
from stepscope.metadata.wire import allocation_codec, extras
from stepscope.metadata.wire.out_of_memory_codec import decode_out_of_memory, encode_out_of_memory
from stepscope.whole_files import whole_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepscope.metadata.columns import OpColumns
    from stepscope.metadata.memory.out_of_memory import OutOfMemory
    from stepscope.metadata.outcome import Completeness, Overhead, Placement, Status
    from stepscope.metadata.recording import LoggedRecording, Recording
    from stepscope.options import RunOptions

__all__ = ["RunMetadata", "as_run_metadata", "is_run_metadata"]


def is_run_metadata(value: object) -> bool:
    """Whether a value is a `RunMetadata`: ours, TensorFlow's or TensorBoard's."""
    return same_name(value, "RunMetadata")


def as_run_metadata(value: Any) -> RunMetadata:
    """A `RunMetadata` of ours: the object itself, or a copy of TensorFlow's or TensorBoard's.

    Anything else is a `TypeError`.
    """
    if isinstance(value, RunMetadata):
        return value
    if not is_run_metadata(value):
        found = value if isinstance(value, type) else type(value)
        raise TypeError(
            "expected a RunMetadata (of Stepscope, TensorFlow or TensorBoard), found "
            f"{found.__module__}.{found.__qualname__}"
        )
    return RunMetadata.FromString(value.SerializeToString())


class RunMetadata(MessageBacked):
    """What one run did, as columns and as TensorFlow's message.

    Columns: `ops`, `allocations` and `allocation_log`. How it went: `status`, `completeness`,
    `overhead`, `engine`, `step_id`, `run_options`, `placements`, `sources`. TensorFlow's fields
    (`step_stats`, `cost_graph`, `partition_graphs`, `function_graphs`, `session_metadata`) are real
    protobuf messages, made when asked for; what is written to them shows in the columns.

    The object behaves like TensorFlow's message. `==` compares TensorFlow's fields only. A run
    replaces all that the object held. Reading from several threads is safe.
    """

    __slots__ = ("__weakref__",)
    _message_class = pb.RunMetadataMessage
    _parts_are_ours: ClassVar[bool] = False

    FunctionGraphs: ClassVar[Any]

    _held: State

    def __init__(self, **fields: Any) -> None:
        object.__setattr__(self, "_held", State())
        if fields:
            message = self._held.hand_out_message()
            for name, value in fields.items():
                self._refuse_own(name)
                self._merge(message, name, value)

    @classmethod
    def of(cls, recording: Recording | Callable[[], Recording]) -> RunMetadata:
        """A run that an engine recorded, see `record`."""
        return cls.over(State(recording=recording))

    @classmethod
    def over(cls, state: State) -> RunMetadata:
        """The run that a state holds."""
        made = cls.__new__(cls)
        object.__setattr__(made, "_held", state)
        return made

    @property
    def state(self) -> State:
        """What is in this object now; a later run is another state."""
        return self._held

    @classmethod
    def combine(cls, runs: Iterable[Any]) -> RunMetadata:
        """Several runs as one: the steps of a training, or the parts that processes ran of a step.

        Rows of `ops`, `allocations` and `allocation_log` stand one run below the other. `ops.step`
        tells the runs apart: it is the step each was recorded under, or, where two of them have
        one in common, the place of the run (0, 1, ...). Threads of one number are taken for the
        same one.

        Losses and overhead are added up. `status` is that of the first run that did not end as it
        should. `peak_bytes` is the highest of the runs. Sources, placements and graphs are those
        of all; `run_options` are kept where they are the same. `cost_graph` and
        `session_metadata`, of which a run has one, are left out.

        Args:
            runs: `RunMetadata` of Stepscope, TensorFlow or TensorBoard. They are not changed, and
                what is recorded into one of them later does not show in the result.

        Returns:
            A run like any other. Nothing is joined before it is asked for.

        Example:
            >>> import stepscope
            >>> from stepscope import tf1 as tf
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     loss = tf.add(1.0, 2.0, name="loss")
            ...     steps = []
            ...     for _ in range(3):
            ...         steps.append(stepscope.RunMetadata())
            ...         options = stepscope.RunOptions(trace_level="FULL_TRACE")
            ...         _ = session.run(loss, options=options, run_metadata=steps[-1])
            >>> whole = stepscope.RunMetadata.combine(steps)
            >>> whole.ops.name.tolist().count("loss"), len(set(whole.ops.step.tolist()))
            (3, 3)
            >>> len(whole.ops) == sum(len(step.ops) for step in steps), whole.status.code
            (True, 'OK')

        """
        from stepscope.metadata.combined import combined

        held = [as_run_metadata(run).held_now() for run in runs]
        return cls.of(lambda: combined(held))

    def record(self, recording: Recording | Callable[[], Recording]) -> None:
        """Replace the content by a run an engine recorded, or by what makes that recording when
        somebody looks; nothing is decoded yet.
        """
        object.__setattr__(self, "_held", State(recording=recording))

    def held_now(self) -> RunMetadata:
        """The run that is in this object now, in an object of its own.

        A later run replaces what is in this one, not that. Nothing is copied.
        """
        return RunMetadata.over(self._held)

    def logged(self) -> LoggedRecording | None:
        """The run as it was logged, where that is the truth to this day; None otherwise."""
        return self._held.logged()

    def recorded(self) -> Recording | None:
        """The run as an engine recorded it; None where a message is the truth, and not that."""
        return self._held.recorded()

    # -- columns and outcome ---------------------------------------------------------------

    @property
    def ops(self) -> OpColumns:
        """The executions of the run, one row each."""
        return self._held.ops()

    def recorded_ops(self) -> OpColumns | None:
        """The columns an engine recorded, while they are the truth; None once a message is."""
        return self._held.recorded_ops()

    @property
    def allocations(self) -> AllocationColumns:
        """Allocations and frees in order of time, as far as they were recorded."""
        return self._held.allocations()

    allocation_log: RunField[AllocationColumns] = RunField(
        lambda message: allocation_codec.decode_allocations(message.allocation_log),
        lambda log, message: allocation_codec.encode_allocations(log, message.allocation_log),
        empty=AllocationColumns.empty,
    )
    """The last allocations and frees, as many as `allocation_log_buffer_size` asked for."""

    out_of_memory: RunField[OutOfMemory | None] = RunField(
        decode_out_of_memory, encode_out_of_memory
    )
    """Who held the memory when a request for more was refused; None where none was."""

    status: RunField[Status] = RunField(extras.decode_status, extras.encode_status)
    """How the run ended; whole bytes that do not say so are of a run that went well."""

    completeness: RunField[Completeness] = RunField(
        extras.decode_completeness, extras.encode_completeness
    )
    """What was dropped, sampled out or never measured. Nothing declared means complete."""

    engine: RunField[str] = RunField()
    """The name of the engine that ran it; empty for bytes that do not say so."""

    recorder: RunField[str] = RunField()
    """What saw the ops of a run on TensorFlow; empty where the engine itself did.

    "executor" (ours, compiled), "profiler" (TensorFlow's), "calls" (of eager ops), "step stats"
    (TensorFlow's own), or several of them.
    """

    step_id: RunField[int] = RunField(in_log=True)
    """The number the engine gave to the run."""

    tag: RunField[str] = RunField(empty=str)
    """The tag under which an event file holds the run; empty for other runs."""

    global_step: RunField[int] = RunField(empty=int)
    """The step under which an event file holds the run; 0 for other runs."""

    run_options: RunField[RunOptions | None] = RunField(
        extras.decode_run_options, extras.encode_run_options, own=copy
    )
    """A copy of the options of the run, where the engine kept them."""

    placements: RunField[tuple[Placement, ...]] = RunField(
        extras.decode_placements, extras.encode_placements, empty=tuple, own=tuple
    )
    """Where each op was placed, and why."""

    sources: RunField[dict[str, str]] = RunField(
        extras.decode_sources, extras.encode_sources, empty=dict, own=dict
    )
    """The source line ("file:line") that made each node, as far as it is known."""

    _peaks: RunField[dict[str, int]] = RunField(
        extras.decode_peaks, extras.encode_peaks, at="peak_bytes", empty=dict, own=dict
    )
    """The most bytes live per device, where the engine measured them; "" is all together."""

    overhead: RunField[Overhead] = RunField(extras.decode_overhead, extras.encode_overhead)
    """What recording cost; zero where nobody measured it."""
    # The last one: whoever waits for the message waited for all of the above.

    def peak_bytes(self, device: str | None = None) -> int:
        """The most bytes that were live at once, on one device or on all of them together.

        A device may be named in short ("/cpu:0").

        Exact where the engine counted (embedded runs at FULL_TRACE). Else from the allocations
        and frees in the record, which tell what the run itself allocated and nothing that was
        live before; else the highest peak of a single op; 0 where no memory was recorded. An
        estimate, which may be too high or too low, where `completeness.memory_is_estimated`.
        """
        device = self._device(device)
        peaks = self._peaks
        if peaks:
            if device is not None:
                return peaks.get(device, 0)
            return peaks.get("", sum(peaks.values()))
        allocations = self.allocations
        if len(allocations):
            return allocations.peak_bytes(device)
        ops = self.ops
        memory = ops.memory
        rows = memory.peak_bytes
        if device is not None:
            rows = rows[ops.device[memory.op_index] == device]
        return int(rows.max()) if len(rows) else 0

    def device_peaks(self) -> dict[str, int]:
        """`peak_bytes` of every device on which ops ran or memory was taken, in one pass."""
        ops = self.ops
        known = dict.fromkeys([*ops.devices.present(), *self.allocations.device.tolist()], 0)
        peaks = self._peaks
        if peaks:
            return {device: peaks.get(device, 0) for device in known}
        if len(self.allocations):
            return known | self.allocations.device_peaks()
        highest = np.zeros(len(ops.devices.table), np.int64)
        np.maximum.at(highest, ops.devices.codes[ops.memory.op_index], ops.memory.peak_bytes)
        return known | {
            device: peak
            for device, peak in zip(ops.devices.table, highest.tolist(), strict=True)
            if device in known
        }

    def alive_at_peak(self, device: str | None = None) -> AllocationColumns:
        """The allocations that were live when the most bytes were, the rows of `allocations`."""
        device = self._device(device)
        allocations = self.allocations
        return allocations.alive_at(allocations.peak_row(device), device)

    def _device(self, device: str | None) -> str | None:
        known = [name for name in self._peaks if name]
        known = known or list(self.allocations.devices.table) or list(self.ops.devices.table)
        return named_device(device, known)

    def to_pandas(self, table: Literal["ops", "allocations"] = "ops") -> Any:
        """The executions, or the allocations and frees, as a pandas `DataFrame`, one row each."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "to_pandas() needs pandas, which is not installed: `pip install pandas`, "
                "or read the NumPy columns of `metadata.ops`"
            ) from error
        columns = table_of(self, table)
        return pd.DataFrame(
            {
                name: column.values if isinstance(column, StringColumn) else column
                for name, column in columns.items()
            }
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the run to a file that `stepscope.load`, TensorFlow and TensorBoard read.

        The file appears whole or not at all: it is written beside its place and then renamed.
        Missing directories are made.
        """
        target = Path(path)
        content = self.SerializeToString()
        head = pb.RunMetadataMessage(bytes_following=len(content)).SerializeToString()
        with whole_file(target, durable=True) as file:
            file.write(head + content)
        return target

    # -- TensorFlow's fields ---------------------------------------------------------------

    step_stats = TensorFlowField()
    """TensorFlow's `StepStats`; what is written to it shows in `ops`."""

    cost_graph = TensorFlowField()
    """TensorFlow's `CostGraphDef`."""

    partition_graphs = TensorFlowField()
    """The graphs as executed, one `GraphDef` per device."""

    function_graphs = TensorFlowField()
    """The graphs of functions, before and after optimisation."""

    session_metadata = TensorFlowField()
    """The name and version a session was given."""

    # -- the message inside ----------------------------------------------------------------

    def _message(self) -> Any:
        return self._held.message()

    def _mutable(self) -> Any:
        return self._held.hand_out_message()

    def _replace(self, message: Any) -> None:
        object.__setattr__(self, "_held", State(message))

    @classmethod
    def _read(cls, data: bytes) -> Any:
        message = cls._message_class()
        message.ParseFromString(bytes(data))
        message.ClearField("bytes_following")
        return message

    def _refuse_own(self, name: str) -> None:
        if name in extras.OWN_FIELDS or name == "ops":
            raise InvalidOptionError(
                f"RunMetadata.{name} is what a run recorded and cannot be set; "
                f"TensorFlow's fields can: {', '.join(TENSORFLOW_FIELDS)}"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        self._refuse_own(name)
        super().__setattr__(name, value)

    @classmethod
    def _canonical(cls, message: Any) -> bytes:
        bare = cls._message_class()
        bare.CopyFrom(message)
        for field in extras.OWN_FIELDS:
            bare.ClearField(field)
        data: bytes = bare.SerializeToString(deterministic=True)
        return data

    def show(self, *, height: int = 720) -> Any:
        """The viewer's pages for this run, for a notebook: `stepscope.show` takes several."""
        # That room lies above this one (see its text).
        return import_module("stepscope.notebook").show(self, height=height)

    def _repr_html_(self) -> str:
        drawn: str = import_module("stepscope.notebook.runs").run_html(self)
        return drawn

    def __repr__(self) -> str:
        status = self.status
        parts = [f"{len(self.ops)} ops"]
        devices = len(set(self.ops.device))
        if devices > 1:
            parts.append(f"{devices} devices")
        if self.engine:
            parts.append(f"engine {self.engine}")
        said = status.message[:60] if status.known else ""
        parts.append(": ".join(filter(None, (status.in_words, said))))
        if status.in_flight:
            parts.append(f"in flight: {', '.join(status.in_flight[:3])}")
        losses = len(self.completeness.losses)
        if losses:
            parts.append(f"{losses} declared {'loss' if losses == 1 else 'losses'}")
        return f"<RunMetadata: {', '.join(parts)}>"
