"""TensorFlow's `timeline.Timeline`: the same trace from the same step stats, without TensorFlow.

Events, names, lanes, process numbers, arguments and times are TensorFlow's, so that a program or a
test that reads its JSON reads ours. Three things differ, all for the better:

- a `Timeline` can be asked as often as one likes; TensorFlow's doubles its events every time;
- the step stats are never written to; TensorFlow's puts its lanes into `thread_id`;
- an unknown `op_time` is an error; TensorFlow's takes it for "all".

The order of the events means nothing to the format and is not TensorFlow's: they come by kind.

Step stats become columns (`columns`: from messages, or from what an engine recorded, with
no message made), columns become text (`events`, `memory`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import orjson

from stepscope._message_fields import same_name
from stepscope.export.messages import describe
from stepscope.export.timeline.columns import (
    DeviceColumns,
    from_columns,
    from_message,
    number_processes,
)
from stepscope.export.timeline.events import (
    TensorOutputs,
    TimelineNodes,
    ops_and_flows,
    process_names,
    use_kernel_times,
)
from stepscope.export.timeline.label_table import table_for
from stepscope.export.timeline.memory import (
    AllocationMaximum,
    memory_ends_and_counters,
    tensor_lives,
)
from stepscope.metadata import RunMetadata, is_run_metadata

if TYPE_CHECKING:
    from stepscope.metadata import OpColumns

__all__ = ["AllocationMaximum", "ChromeTrace", "Event", "StepStatsAnalysis", "Timeline"]

Event: TypeAlias = dict[str, Any]
OpTime: TypeAlias = Literal["schedule", "gpu", "all"]

_OP_TIMES = ("schedule", "gpu", "all")


class ChromeTrace:
    """A finished trace."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Take the trace as JSON text."""
        self._text = text

    @property
    def events(self) -> list[Event]:
        """The Chrome trace events, metadata events first; parsed anew at every look."""
        events: list[Event] = orjson.loads(self._text)["traceEvents"]
        return events

    def format_to_string(self, pretty: bool = False) -> str:
        """The trace as JSON text, indented if `pretty`."""
        if pretty:
            return orjson.dumps(orjson.loads(self._text), option=orjson.OPT_INDENT_2).decode()
        return self._text


class StepStatsAnalysis(NamedTuple):
    """What `Timeline.analyze_step_stats` found.

    `allocator_maximums` maps an allocator's name to its `AllocationMaximum`; it is empty unless
    the analysis was asked for memory.
    """

    chrome_trace: ChromeTrace
    allocator_maximums: dict[str, AllocationMaximum]


class Timeline:
    """The execution of one step as a Chrome trace, as TensorFlow draws it."""

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        """Take the `StepStats` of a run, or the `RunMetadata` that holds them.

        Messages of TensorFlow, of TensorBoard and of Stepscope are alike here. `graph` is there
        because TensorFlow's constructor has it; as there, nothing depends on it.
        """
        self._recorded: RunMetadata | None = None
        if isinstance(step_stats, RunMetadata):
            self._recorded = step_stats
        elif is_run_metadata(step_stats):
            step_stats = step_stats.step_stats
        elif not same_name(step_stats, "StepStats"):
            raise TypeError(
                "Timeline takes the step stats of a run (run_metadata.step_stats, a StepStats "
                f"message), not {describe(step_stats)}"
            )
        self._step_stats = step_stats
        self._graph = graph

    def generate_chrome_trace_format(
        self, show_dataflow: bool = True, show_memory: bool = False, op_time: OpTime = "schedule"
    ) -> str:
        """The trace as JSON text; the arguments are those of `analyze_step_stats`."""
        return self.analyze_step_stats(
            show_dataflow=show_dataflow, show_memory=show_memory, op_time=op_time
        ).chrome_trace.format_to_string()

    def analyze_step_stats(
        self, show_dataflow: bool = True, show_memory: bool = True, op_time: OpTime = "schedule"
    ) -> StepStatsAnalysis:
        """The trace as events, and the peak of each allocator.

        `show_dataflow` adds an arrow for every edge between different lanes. `show_memory` adds the
        life of every tensor and a counter per allocator. `op_time` says which time an op has:
        "schedule" its own, "gpu" from the first to the last of its GPU kernels, "all" from its
        start to the end of its last kernel.
        """
        if op_time not in _OP_TIMES:
            raise ValueError(f"op_time must be one of {', '.join(_OP_TIMES)}; it was {op_time!r}")
        devices = self._devices(memory=show_memory)
        number_processes(devices)
        if op_time != "schedule":
            use_kernel_times(devices, from_first_kernel=op_time == "gpu")
        rows = TimelineNodes(devices)
        table = table_for(len(rows.names))
        tensors = TensorOutputs(rows, table)
        texts = ['{"traceEvents":[', ",".join(process_names(devices)), ","]
        if show_memory:
            texts += tensor_lives(rows, tensors)
        texts += ops_and_flows(rows, tensors, table, show_dataflow=show_dataflow)
        maximums: dict[str, AllocationMaximum] = {}
        if show_memory:
            ends, maximums = memory_ends_and_counters(rows, tensors)
            texts += ends
        texts[-1] = texts[-1].removesuffix(",")
        texts.append("]}")
        return StepStatsAnalysis(ChromeTrace("".join(texts)), maximums)

    def _devices(self, *, memory: bool) -> list[DeviceColumns]:
        if self._recorded is None:
            return from_message(self._step_stats, memory=memory)
        ops: OpColumns | None = self._recorded.recorded_ops()
        if ops is None:
            return from_message(self._recorded.step_stats, memory=memory)
        return from_columns(ops, memory=memory)
