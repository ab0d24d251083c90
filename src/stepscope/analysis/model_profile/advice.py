"""What stands out in a model's profile: TensorFlow's checkers, by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from stepscope.analysis.model_profile.nodes import ModelProfile, Numbers
from stepscope.analysis.model_profile.options import ProfileOptions
from stepscope.analysis.model_profile.report import time_text
from stepscope.analysis.model_profile.views import view_of

__all__ = ["CHECKERS", "advice"]

_ALL = ProfileOptions(
    max_depth=10_000,
    order_by="micros",
    account_type_regexes=(".*",),
    start_name_regexes=(".*",),
    show_name_regexes=(".*",),
)
_MOST = 3
_BUSY = 0.5


def advice(profile: ModelProfile, checkers: Iterable[str]) -> dict[str, list[str]]:
    """What each checker reports; an empty list says that it found nothing.

    A checker that is not known is a `ValueError`.
    """
    found = {}
    for name in checkers:
        if name not in CHECKERS:
            raise ValueError(f"there is no checker {name!r}; there are {', '.join(CHECKERS)}")
        found[name] = list(CHECKERS[name](profile))
    return found


def _expensive(profile: ModelProfile) -> Iterator[str]:
    """The op types, nodes and lines that take the most time."""
    types = list(view_of(profile, "op", _ALL).walk())[1:]
    whole = sum(place.own.exec_micros for place in types)
    yield "\n".join(
        f"{_top(rank, 'operation type', place.name, place.own)} "
        f"({100 * place.own.exec_micros / whole:.2f}%)"
        for rank, place in enumerate(types[:_MOST], 1)
        if place.own.exec_micros
    )
    nodes = [(node.name, node.numbers()) for node in profile.nodes.values()]
    yield "\n".join(_most("graph node", nodes))
    lines = [(place.name, place.own) for place in view_of(profile, "code", _ALL).walk()]
    yield "\n".join(_most("line", lines))


def _most(what: str, found: list[tuple[str, Numbers]]) -> Iterator[str]:
    ordered = sorted(found, key=lambda each: (-each[1].exec_micros, each[0]))
    for rank, (name, own) in enumerate(ordered[:_MOST], 1):
        if own.exec_micros:
            yield _top(rank, what, name, own)


def _top(rank: int, what: str, name: str, own: Numbers) -> str:
    cpu, accelerator, both = map(
        time_text,
        attrgetter("cpu_exec_micros", "accelerator_exec_micros", "exec_micros")(own),
    )
    return f"top {rank} {what}: {name}, cpu: {cpu}, accelerator: {accelerator}, total: {both}"


def _accelerators(profile: ModelProfile) -> Iterator[str]:
    """Accelerators that are busy for less than half of the time in which they are used."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for node in profile.nodes.values():
        for ran in node.executions.values():
            for device, start, micros in ran.starts:
                if "stream:all" in device:
                    spans.setdefault(device, []).append((start, start + micros))
    for device, times in sorted(spans.items()):
        begin, end = min(start for start, _ in times), max(end for _, end in times)
        busy = sum(end - start for start, end in times)
        if busy < _BUSY * (end - begin):
            yield f"{device} is busy for {busy / (end - begin):.2f} of the time from first to last"


def _operations(profile: ModelProfile) -> Iterator[str]:
    """Images in an order that accelerators are slow with."""
    for node in profile.nodes.values():
        on_gpu = any("gpu" in device for device in node.devices)
        if on_gpu and node.data_format == "NHWC":
            yield f"{node.name} ({node.op}) runs on a GPU with data_format NHWC; NCHW is faster"


def _nothing(_: ModelProfile) -> Iterator[str]:
    """Of the jobs of a cluster, which TensorFlow never made public."""
    yield from ()


CHECKERS: dict[str, Callable[[ModelProfile], Iterator[str]]] = {
    "ExpensiveOperationChecker": _expensive,
    "AcceleratorUtilizationChecker": _accelerators,
    "JobChecker": _nothing,
    "OperationChecker": _operations,
}
