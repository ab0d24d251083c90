"""Accelerators in the profiler's data, under the names TensorFlow's step stats gave them.

A GPU's plane `/device:GPU:0` has a line per stream. As TensorFlow 1 did, a kernel is shown twice:
on `/device:GPU:0/stream:all` and on its own `/device:GPU:0/stream:14`; a copy on
`/device:GPU:0/memcpy` and on its stream. Lines that the profiler derives from the streams (steps,
name scopes) are left out. Every line of another accelerator (`/device:TPU:0`, one plane per core)
is a device of its own, under plane and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from stepscope.metadata.xplane import Plane, Space

_STREAM: Final = re.compile(r"^Stream #(\d+)")
_COPY: Final = re.compile(r"^memcpy", re.IGNORECASE)

Execution = tuple[str, str, int, int, str]
"""name, op type, start and end in nanoseconds, device"""


def lanes(space: Space, plane: Plane) -> Iterator[tuple[str, list[Execution]]]:
    """(name, executions) of each line of an accelerator's plane."""
    gpu = ":GPU:" in plane.name
    for line in plane.lines:
        name = line.name
        stream = _STREAM.match(name)
        if gpu and stream is None:
            continue
        base = space.line_base_ns(line) * 1000
        found: list[Execution] = []
        for event in line.events:
            kernel = plane.names.get(event.metadata_id, "")
            stats = plane.stats(event)
            node, op = _node(str(stats.get("tf_op") or ""), kernel)
            start = base + event.offset_ps
            times = start // 1000, (start + event.duration_ps) // 1000
            if stream is None:
                devices = [f"{plane.name}/{name}" if name else plane.name]
            else:
                copy = "memcpy_details" in stats or _COPY.match(kernel)
                both = "memcpy" if copy else "stream:all"
                devices = [f"{plane.name}/{both}", f"{plane.name}/stream:{stream[1]}"]
            found += [(node, op, *times, device) for device in devices]
        yield name, found


def _node(tf_op: Any, kernel: str) -> tuple[str, str]:
    """Node and op type of an event that says `node:Op`; else the kernel's own name for both."""
    node, colon, op = tf_op.rpartition(":")
    return (node, op) if colon and node and op else (tf_op or kernel, kernel)
