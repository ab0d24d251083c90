"""Which task of a cluster an execution belongs to, as its device's name says it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from stepscope.metadata import OpColumns

__all__ = ["as_task", "is_local", "natural_order", "task_column", "task_of"]

_TASK = re.compile(r"/job:([^/]+)(?:/replica:(\d+))?(?:/task:(\d+))?")


@lru_cache(maxsize=1 << 14)
def task_of(device: str) -> str:
    """The task of a device: "worker:1" of "/job:worker/replica:0/task:1/device:CPU:0".

    A replica other than 0 stands before the task ("worker:2/1"). "" where the device names none.
    """
    match = _TASK.match(device)
    if match is None:
        return ""
    job, replica, task = match.groups()
    number = task or "0"
    return f"{job}:{number}" if int(replica or 0) == 0 else f"{job}:{replica}/{number}"


def as_task(name: str) -> str:
    """A name as a task: "chief:0" for "chief"."""
    return name if not name or name.rpartition(":")[2].isdecimal() else f"{name}:0"


def is_local(task: str) -> bool:
    """Whether a device's task says nothing: none, or that of a process outside of any cluster."""
    return not task or task.startswith("localhost:")


def task_column(ops: OpColumns) -> StringColumn:
    """The task per row; the table holds only tasks that have rows, in their natural order."""
    of_device = [task_of(device) for device in ops.devices.table]
    used = np.unique(ops.devices.codes).tolist()
    tasks = sorted({of_device[code] for code in used}, key=natural_order)
    number = {task: i for i, task in enumerate(tasks)}
    codes = np.array([number.get(task, 0) for task in of_device], np.int32)
    return StringColumn(codes[ops.devices.codes] if len(codes) else codes, tuple(tasks))


@lru_cache(maxsize=1 << 14)
def natural_order(text: str) -> tuple[tuple[int, str], ...]:
    """A key under which worker:2 comes before worker:10."""
    parts = re.split(r"(\d+)", text)
    return tuple((int(part), "") if part.isdecimal() else (0, part) for part in parts)
