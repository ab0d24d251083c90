"""When the runs of a worker were, noted while they are read for something else."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.analysis.cluster.retimed import Retime
    from stepscope.metadata import OpColumns

    Ints: TypeAlias = NDArray[np.int64]

__all__ = ["RunTimes"]


class RunTimes:
    """The runs of a worker in order: name, number of ops, and when each was.

    Kept are, per run and device, the first start and the last end, so that the times can be put by
    another clock later on.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.rows = array("q")
        self._run, self._device, self._start, self._end = (array("q") for _ in range(4))
        self._devices: dict[str, int] = {}

    def add(self, name: str, ops: OpColumns) -> None:
        """Note the next run."""
        for device in np.unique(ops.devices.codes).tolist():
            here = ops.devices.codes == device
            text = ops.devices.table[device]
            self._run.append(len(self.names))
            self._device.append(self._devices.setdefault(text, len(self._devices)))
            self._start.append(int(ops.start_ns[here].min()))
            self._end.append(int(ops.end_ns[here].max()))
        self.names.append(name)
        self.rows.append(len(ops))

    def spans(self, retime: Retime | None = None) -> tuple[Ints, Ints]:
        """The start and the end of every run, by another clock if asked; 0 where it has no ops."""
        run, device, start, end = (
            np.array(column, np.int64)
            for column in (self._run, self._device, self._start, self._end)
        )
        if retime is not None:
            devices = StringColumn(device.astype(np.int32), tuple(self._devices))
            start, end = retime(devices, start), retime(devices, end)
        first = np.full(len(self.names), np.iinfo(np.int64).max)
        last = np.full(len(self.names), np.iinfo(np.int64).min)
        np.minimum.at(first, run, start)
        np.maximum.at(last, run, end)
        empty = np.array(self.rows, np.int64) == 0
        first[empty] = last[empty] = 0
        return first, np.maximum(first, last)
