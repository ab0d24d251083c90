"""Tensor descriptions from the profiler's text.

An op's event says its inputs: `(float[2,4];float[4,3])`. With the graph's edges that gives outputs:
what one node's input is, is another node's output.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence

from stepscope._messages import DataType
from stepscope.adapters.tensorflow.capture.events import Row
from stepscope.adapters.tensorflow.capture.graphs import NodeInfo
from stepscope.adapters.tensorflow.capture.steps import Described
from stepscope.metadata import TensorColumns

_TEXT = re.compile(r"^(\w+)\[([\d,?]*)\]$")
_SIZES = {
    "float": 4, "double": 8, "int32": 4, "uint8": 1, "int16": 2, "int8": 1, "complex64": 8,
    "int64": 8, "bool": 1, "uint16": 2, "complex128": 16, "half": 2, "bfloat16": 2, "uint32": 4,
    "uint64": 8,
}  # fmt: skip


@functools.lru_cache(4096)
def parse(text: str) -> tuple[Described | None, ...]:
    """The inputs an event describes; None for one it does not (resources, dead inputs)."""
    if not text.startswith("(") or text == "()":
        return ()
    return tuple(_parse_one(part) for part in text[1:-1].split(";"))


def _parse_one(text: str) -> Described | None:
    match = _TEXT.match(text.strip())
    if match is None:
        return None
    kind, axes = match.groups()
    shape = tuple(-1 if a == "?" else int(a) for a in axes.split(",") if a)
    size = math.prod(shape) * _SIZES.get(kind, 0) if -1 not in shape else 0
    try:
        return DataType.Value(f"DT_{kind.upper()}"), shape, size
    except ValueError:
        return None


def output_tensors(
    rows: Sequence[Row], nodes: Mapping[str, NodeInfo], extra: Mapping[int, Sequence[Described]]
) -> TensorColumns:
    """One row per output: as seen, as `extra` (by row) gives it, or as some reader described it."""
    outputs: dict[tuple[str, int], Described] = {}
    for row in rows:
        info = nodes.get(row.name)
        if info is None or not row.shapes:
            continue
        described = zip(info.inputs, parse(row.shapes), strict=False)
        outputs.update({port: found for port, found in described if found is not None})
    slots: dict[str, list[int]] = {}
    for name, slot in outputs:
        slots.setdefault(name, []).append(slot)
    table: list[tuple[int, int, Described]] = []
    for i, row in enumerate(rows):
        if row.outputs or i in extra:
            seen = enumerate(row.outputs or extra[i])
            table.extend((i, slot, described) for slot, described in seen if described is not None)
            continue
        table.extend((i, s, outputs[row.name, s]) for s in sorted(slots.get(row.name, ())))
    return TensorColumns.build(
        op_index=[t[0] for t in table],
        slot=[t[1] for t in table],
        dtype=[t[2][0] for t in table],
        shape=[t[2][1] for t in table],
        bytes=[t[2][2] for t in table],
    )
