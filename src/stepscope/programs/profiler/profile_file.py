"""A profile as the message that TensorFlow's profiler keeps in files: `ProfileProto`."""

from __future__ import annotations

from typing import Any

from stepscope.analysis.model_profile import ModelProfile
from stepscope.metadata.wire.profile_messages import ProfileProto

__all__ = ["profile_message"]


def profile_message(profile: ModelProfile) -> Any:
    """All nodes, by number, and what they took, step by step."""
    message = ProfileProto(steps=sorted(profile.steps))
    numbers = {name: number for number, name in enumerate(profile.nodes)}
    texts: dict[str, int] = {}
    for name, node in profile.nodes.items():
        into = message.nodes[numbers[name]]
        into.name, into.op, into.id = name, node.op, numbers[name]
        into.op_types.extend(sorted(node.types))
        into.float_ops = node.float_ops
        into.shape.extend(node.shape or ())
        into.canonical_device = next(iter(node.devices), "")
        for place, source in node.inputs.items():
            if source in numbers:
                into.inputs[place] = numbers[source]
        for place, shape in profile.input_shapes(node).items():
            if shape is not None:
                into.input_shapes[place].int64_values.extend(shape)
        if node.first_shape is not None:
            into.output_shapes[0].int64_values.extend(node.first_shape)
        for frame in node.trace:
            file, function, line = (
                texts.setdefault(text, len(texts))
                for text in (frame.file, frame.function, frame.text)
            )
            into.trace.traces.add(
                file_id=file, lineno=frame.line, function_id=function, line_id=line
            )
        message.has_trace = message.has_trace or bool(node.trace)
        for step, ran in node.executions.items():
            _fill_execution(into.execs[step], ran)
    message.id_to_string.update({number: text for text, number in texts.items()})
    return message


def _fill_execution(into: Any, ran: Any) -> None:
    into.run_count = ran.runs
    into.devices.extend(sorted(ran.devices))
    into.all_start_micros = min(start for _, start, _ in ran.starts)
    into.latest_end_micros = max(start + micros for _, start, micros in ran.starts)
    for device, start, micros in ran.starts:
        kind = into.accelerator_execs if "stream:all" in device else into.cpu_execs
        kind[device].times.add(int64_values=(start, micros))
    into.memory_execs.add(
        requested_bytes=ran.requested, peak_bytes=ran.peak, residual_bytes=ran.residual,
        output_bytes=ran.output,
    )  # fmt: skip
