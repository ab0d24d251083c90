"""Accelerators in a profile, under the names TensorFlow's step stats gave them.

A GPU's plane `/device:GPU:0` has a line per stream. As TensorFlow 1 did, a kernel is shown twice:
on `/device:GPU:0/stream:all` and on its own `/device:GPU:0/stream:14`; a copy on
`/device:GPU:0/memcpy` and on its stream. Lines that the profiler derives from the streams (steps,
name scopes) are left out. Every line of another accelerator (`/device:TPU:0`, one plane per core)
is a device of its own, under plane and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.metadata.xplane.space import Plane, Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Texts = NDArray[np.object_]

_STREAM: Final = re.compile(r"^Stream #(\d+)")
_COPY: Final = re.compile(r"^memcpy", re.IGNORECASE)


class AcceleratorLane(NamedTuple):
    """The executions of one line of an accelerator, as columns."""

    name: str
    id: int
    node: Texts
    op: Texts
    start_ns: Ints
    end_ns: Ints
    device: Texts


def lanes(space: Space, plane: Plane) -> Iterator[AcceleratorLane]:
    """Those of one plane, in the order of their lines."""
    is_gpu = ":GPU:" in plane.name
    for line in plane.lines:
        stream = _STREAM.match(line.name)
        if (is_gpu and stream is None) or not len(line):
            continue
        origin = space.origin_ns(line)
        start, end = line.offset_ps, line.offset_ps + line.duration_ps
        kernels = np.array(
            [plane.names.get(number, "") for number in line.metadata_id.tolist()], object
        )
        stats = line.stats(np.arange(len(line)))
        said = stats.texts("tf_op")
        nodes, ops = kernels.copy(), kernels.copy()
        for place in np.flatnonzero(said != "").tolist():
            nodes[place], ops[place] = _node(said[place], kernels[place])
        columns = (nodes, ops, origin + start // 1000, origin + end // 1000)
        if stream is None:
            device = f"{plane.name}/{line.name}" if line.name else plane.name
            yield AcceleratorLane(line.name, line.id, *columns, np.full(len(line), device, object))
            continue
        copies = stats.given("memcpy_details")
        copies |= np.array([_COPY.match(kernel) is not None for kernel in kernels], bool)
        both = np.where(copies, f"{plane.name}/memcpy", f"{plane.name}/stream:all").astype(object)
        own = np.full(len(line), f"{plane.name}/stream:{stream[1]}", object)
        twice = [np.concatenate((column, column)) for column in (*columns, own)]
        twice[-1][: len(line)] = both
        yield AcceleratorLane(line.name, line.id, *twice)


def _node(tf_op: str, kernel: str) -> tuple[str, str]:
    """Node and op type of an event that says `node:Op`; else the kernel's own name for both."""
    node, colon, op = tf_op.rpartition(":")
    return (node, op) if colon and node and op else (tf_op, kernel)
