"""TensorFlow's `timeline.Timeline`: the same trace from the same step stats, without TensorFlow.

Events, names, lanes, process numbers, arguments and times are TensorFlow's, so that a program or a
test that reads its JSON reads ours. Three things differ, all for the better:

- a `Timeline` can be asked as often as one likes; TensorFlow's doubles its events every time;
- the step stats are never written to; TensorFlow's puts its lanes into `thread_id`;
- an unknown `op_time` is an error; TensorFlow's takes it for "all".

The work is two passes: step stats to plain lists per device, then lists to events
(`_timeline_events`).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from stepscope.export._accept import describe, is_a
from stepscope.export._timeline_events import (
    AllocationMaximum,
    Event,
    assign_lanes,
    collect_tensors,
    emit_memory,
    emit_ops,
    emit_tensor_lives,
    process_names,
    read_devices,
    use_kernel_times,
)

__all__ = ["AllocationMaximum", "ChromeTrace", "Event", "StepStatsAnalysis", "Timeline"]

OpTime: TypeAlias = Literal["schedule", "gpu", "all"]

_OP_TIMES = ("schedule", "gpu", "all")


class ChromeTrace:
    """A finished trace: `events` is the list of Chrome trace events, metadata events first."""

    __slots__ = ("events",)

    def __init__(self, events: list[Event]) -> None:
        """Wrap events that are complete; nothing is copied."""
        self.events = events

    def format_to_string(self, pretty: bool = False) -> str:
        """The trace as JSON text, indented if `pretty`."""
        option = orjson.OPT_INDENT_2 if pretty else None
        return orjson.dumps({"traceEvents": self.events}, option=option).decode()


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
        if is_a(step_stats, "RunMetadata"):
            step_stats = step_stats.step_stats
        if not is_a(step_stats, "StepStats"):
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
        devices = read_devices(self._step_stats)
        if op_time != "schedule":
            use_kernel_times(devices, from_first_kernel=op_time == "gpu")
        for device in devices:
            device.lanes = assign_lanes(device.starts, device.durations)

        events = list(process_names(devices))
        tensors = collect_tensors(devices, with_memory=show_memory)
        if show_memory:
            emit_tensor_lives(devices, events)
        emit_ops(devices, tensors, events, show_dataflow=show_dataflow)
        maximums = emit_memory(tensors, events) if show_memory else {}
        return StepStatsAnalysis(ChromeTrace(events), maximums)
