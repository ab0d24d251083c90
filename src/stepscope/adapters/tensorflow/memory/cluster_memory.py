"""Out of memory on a cluster: what was refused, and what is known of who held memory there.

A cluster tells nothing of a run that failed but its error, which names the request. What was held
on the refusing device is put together from two things that are known here: the variables of the
graph that are placed there, and what the session's last traced run that fitted held there at its
peak. Where neither is known, there is no report.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import tensorflow

from stepscope.adapters.tensorflow.memory.report import (
    explain,
    give_its_class,
    is_out_of_memory,
    request_of,
)
from stepscope.adapters.tensorflow.runs.session_graph import is_of
from stepscope.metadata import AllocationColumns, Loss
from stepscope.metadata.memory.allocations import HELD
from stepscope.metadata.memory.out_of_memory import OutOfMemory, out_of_memory

HOLDERS: Final = Loss(
    "holders of memory", 0,
    "a cluster does not tell who held memory when a request was refused: listed are the variables "
    "on that device, and what the last traced run that fitted held there at its peak",
)  # fmt: skip
_VARIABLES: Final = frozenset({"VarHandleOp", "VariableV2", "Variable"})


class _Held(NamedTuple):
    name: str
    bytes: int
    kind: str
    dtype: int
    shape: tuple[int, ...] | None


def report_on(
    error: Any,
    graph: Any,
    fitted: Callable[[], AllocationColumns] | None,
    sources: Callable[[], Mapping[str, str]],
) -> OutOfMemory | None:
    """The report on a run that ran out of memory, also put into the error's text; else None.

    `fitted` gives the allocations of the last run that fitted.
    """
    if not is_out_of_memory(error):
        return None
    give_its_class(error)
    request = request_of(error, time.time_ns())
    held = list(_variables(graph, request.device))
    if fitted is not None:
        held += _at_peak(fitted(), request.device)
    report = None
    if held:
        alive = AllocationColumns.build(
            name=[item.name for item in held],
            device=[request.device] * len(held),
            time_ns=[request.time_ns] * len(held),
            bytes=[item.bytes for item in held],
            event=[HELD] * len(held),
            kind=[item.kind for item in held],
            dtype=[item.dtype for item in held],
            shape=[item.shape for item in held],
        )
        report = out_of_memory(request, alive, sources=sources(), cached=None)
    explain(error, report)
    return report


def _variables(graph: Any, device: str) -> Iterator[_Held]:
    for op in graph.get_operations():
        if op.type not in _VARIABLES or not op.device or not is_of(device, op.device):
            continue
        dtype = tensorflow.as_dtype(op.get_attr("dtype"))
        shape = tensorflow.TensorShape(op.get_attr("shape"))
        if shape.is_fully_defined():
            size = math.prod(shape.as_list()) * dtype.size
            yield _Held(op.name, size, "variable", dtype.as_datatype_enum, tuple(shape.as_list()))


def _at_peak(allocations: AllocationColumns, device: str) -> Iterator[_Held]:
    here = allocations.select(allocations.device == device)
    if not len(here):
        return
    alive = here.alive_at(here.peak_row(device), device)
    for row in range(len(alive)):
        yield _Held(
            str(alive.name[row]), int(alive.bytes[row]), str(alive.kind[row]),
            int(alive.dtype[row]), alive.shape[row],
        )  # fmt: skip
