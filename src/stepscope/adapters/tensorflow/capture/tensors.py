"""What ops put out, from what others say they took in.

An op's event says its inputs (`stepscope.metadata.xplane.shapes`). With the graph's edges that
gives outputs: what one node's input is, is another node's output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stepscope.adapters.tensorflow.capture.graphs import NodeInfo
from stepscope.metadata import TensorColumns
from stepscope.metadata.xplane import Described, Row, input_tensors

MAY_TAKE_NONE: Final = frozenset({"Slice", "StridedSlice", "Split", "SplitV", "Unpack", "Bitcast"})
"""Those of which it depends on the shapes."""


def output_tensors(rows: Sequence[Row], nodes: Mapping[str, NodeInfo]) -> TensorColumns:
    """One row per output: as seen, or as some reader described it."""
    outputs: dict[tuple[str, int], Described] = {}
    for row in rows:
        info = nodes.get(row.name)
        if info is None or not row.shapes:
            continue
        described = zip(info.inputs, input_tensors(row.shapes), strict=False)
        outputs.update({port: found for port, found in described if found is not None})
    slots: dict[str, list[int]] = {}
    for name, slot in outputs:
        slots.setdefault(name, []).append(slot)
    table: list[tuple[int, int, Described]] = []
    for i, row in enumerate(rows):
        if row.outputs:
            seen = enumerate(row.outputs)
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
