"""Where everything is drawn: processes, lanes, and which slice goes on which.

Numbers are given out as things are first met, so a trace can be written as a stream. Processes have
even numbers and lanes odd ones, unique over the whole trace: viewers take a lane of its process's
number for the process's main thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from stepscope.analysis.execution.lanes import split_lanes
from stepscope.export.json_rows import escaped
from stepscope.metadata.xplane.steps import ANNOTATION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata import OpColumns

    Ints: TypeAlias = NDArray[np.int64]


class _Group:
    """The lanes of one thread of a process, or of all ops whose thread is not known."""

    __slots__ = ("label", "lanes", "may_contain", "pid")

    def __init__(self, pid: int, label: str, *, may_contain: bool) -> None:
        self.pid = pid
        self.label = label
        self.may_contain = may_contain
        self.lanes: list[int] = []


class Placed(NamedTuple):
    """A run to be laid out: its ops, its ends (never before the start) and each row's group."""

    ops: OpColumns
    end: Ints
    groups: Ints


class Layout:
    """Gives out processes and lanes; `places[lane]` is the part of an event's text up to its time.

    A lane is an index; its number in the trace is `2 * lane + 1`.
    """

    def __init__(self) -> None:
        self.places: list[str] = []
        self._place_table: NDArray[Any] = np.empty(0, object)
        self._pids: dict[str, int] = {}
        self._groups: list[_Group] = []
        self._group_codes: dict[tuple[int, str, bool], int] = {}
        self._news: list[str] = []

    def place_table(self) -> NDArray[Any]:
        """`places` as a table to pick from by number."""
        if len(self._place_table) != len(self.places):
            self._place_table = np.array(self.places, object)
        return self._place_table

    def take_news(self) -> list[str]:
        """Texts of the events that name what was met since the last time."""
        news, self._news = self._news, []
        return news

    def pid(self, name: str) -> int:
        """The process of that name."""
        pid = self._pids.get(name)
        if pid is None:
            pid = 2 * (len(self._pids) + 1)
            self._pids[name] = pid
            head = f'{{"ph":"M","pid":{pid},"name":"process_'
            self._news.append(f'{head}name","args":{{"name":"{escaped(name)}"}}}},\n')
            self._news.append(f'{head}sort_index","args":{{"sort_index":{pid}}}}},\n')
        return pid

    def spans(self, process: str, label: str, start: Ints, end: Ints) -> Ints:
        """The lane of each of some slices that are no ops; side by side where they overlap."""
        group = self._group(self.pid(process), label, may_contain=False)
        return self._lanes(group, split_lanes(start, end, may_contain=False))

    def prepare(self, ops: OpColumns, worker: str) -> Placed:
        """A run's rows by group: the thread they ran on, where that is known."""
        prefix = f"{worker} " if worker else ""
        end = np.maximum(ops.end_ns, ops.start_ns)
        threads, thread_codes = np.unique(ops.thread, return_inverse=True)
        marks = np.array([op == ANNOTATION for op in ops.ops.table], bool)
        is_mark = marks[ops.ops.codes] if marks.any() else np.zeros(len(ops), bool)
        keys = (ops.devices.codes * max(len(threads), 1) + thread_codes) * 2 + is_mark
        distinct, which = np.unique(keys, return_inverse=True)
        groups = []
        for key in distinct.tolist():
            device, thread = divmod(key // 2, max(len(threads), 1))
            pid = self.pid(prefix + ops.devices.table[device])
            number = int(threads[thread])
            name = ops.thread_names.get(number, "")
            if name or number:
                label = name or f"thread {number}"
                groups.append(self._group(pid, label, may_contain=True))
            elif key % 2:
                groups.append(self._group(pid, "annotations", may_contain=True))
            else:
                groups.append(self._group(pid, "ops", may_contain=False))
        return Placed(ops, end, np.array(groups, np.int64)[which])

    def place(self, runs: list[Placed]) -> list[Ints]:
        """The lane of each row of runs at the same time.

        They are looked at together: a thread is the same lane in all of them, and what crosses on
        it goes to a further lane.
        """
        start = np.concatenate([run.ops.start_ns for run in runs])
        end = np.concatenate([run.end for run in runs])
        groups = np.concatenate([run.groups for run in runs])
        lanes = np.empty(len(start), np.int32)
        for rows in _rows_by_key(groups):
            code = int(groups[rows[0]])
            may_contain = self._groups[code].may_contain
            lanes[rows] = self._lanes(
                code, split_lanes(start[rows], end[rows], may_contain=may_contain)
            )
        return np.split(lanes, np.cumsum([len(run.groups) for run in runs])[:-1])

    def _group(self, pid: int, label: str, *, may_contain: bool) -> int:
        key = (pid, label, may_contain)
        code = self._group_codes.get(key)
        if code is None:
            code = self._group_codes[key] = len(self._groups)
            self._groups.append(_Group(pid, label, may_contain=may_contain))
        return code

    def _lanes(self, code: int, within: Ints) -> Ints:
        group = self._groups[code]
        while len(group.lanes) <= int(within.max(initial=-1)):
            lane, number = len(self.places), len(group.lanes)
            group.lanes.append(lane)
            tid = 2 * lane + 1
            self.places.append(f'","pid":{group.pid},"tid":{tid},"ts":')
            name = escaped(f"{group.label} ({number + 1})" if number else group.label)
            head = f'{{"ph":"M","pid":{group.pid},"tid":{tid},"name":"thread_'
            self._news.append(f'{head}name","args":{{"name":"{name}"}}}},\n')
            self._news.append(f'{head}sort_index","args":{{"sort_index":{tid}}}}},\n')
        return np.array(group.lanes, np.int64)[within]


def _rows_by_key(keys: Ints) -> list[Ints]:
    """The rows of each distinct key, the lowest key first."""
    if not len(keys):
        return []
    if (keys == keys[0]).all():
        return [np.arange(len(keys))]
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)
