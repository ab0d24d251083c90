"""A view as text: a line for every place that is shown, with what was selected.

The lines are those of TensorFlow's profiler. A number before a slash is of the place itself ("--"
where it does not count), that behind it of all that is below it too. In the view of op types the
first percentage is of this type and those after it, the second of this one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

from stepscope.analysis.model_profile.nodes import ModelProfile, ProfiledNode
from stepscope.analysis.model_profile.options import ProfileOptions
from stepscope.analysis.model_profile.views import View, ViewPlace

__all__ = ["framed", "report", "time_text"]

_ABOUT = {
    "scope": "nodes are below the scopes that their names tell: a/b is below a.",
    "graph": "nodes are below those that they are an input of, each in one place.",
    "op": "nodes of one op type are taken together; percentages are of a type and all after it, "
    "and of the type alone.",
    "code": "lines of the program are below those that called them.",
}
_MEANS = {
    "bytes": "requested bytes: all that an op's executions asked its allocators for.",
    "peak_bytes": "peak bytes: the most that an op held at one time.",
    "residual_bytes": "residual bytes: what was still held when an op was over.",
    "output_bytes": "output bytes: what an op put out, whoever allocated it.",
    "micros": "total execution time: on accelerators and on CPUs.",
    "accelerator_micros": "accelerator execution time: as the device's own tracer measured it.",
    "cpu_micros": "cpu execution time: from an op's beginning to its end, waiting included.",
    "params": "parameters: how many numbers a variable holds.",
    "float_ops": "flops: floating-point operations of one run, counted by shapes as TensorFlow "
    "counts them; types for which it has no rule count as 0.",
    "occurrence": "occurrence: how often it ran, and how many there are of it.",
    "device": "device: where it ran.",
    "op_types": "op types: its op type, its devices, and types given by an op log.",
    "input_shapes": "input shapes: of what it is given, by place.",
    "tensor_value": "tensor value: not shown, as no checkpoint is read.",
}
_TITLES = {
    "bytes": "requested bytes", "peak_bytes": "peak bytes", "residual_bytes": "residual bytes",
    "output_bytes": "output bytes", "micros": "total execution time",
    "accelerator_micros": "accelerator execution time", "cpu_micros": "cpu execution time",
    "params": "# parameters", "float_ops": "# float_ops", "device": "assigned devices",
    "op_types": "op types", "input_shapes": "input shapes",
}  # fmt: skip
_SIZES = ("bytes", "peak_bytes", "residual_bytes", "output_bytes")
_TIMES = ("micros", "accelerator_micros", "cpu_micros")
_FIELDS = {
    "bytes": "requested_bytes",
    "micros": "exec_micros",
    "accelerator_micros": "accelerator_exec_micros",
    "cpu_micros": "cpu_exec_micros",
    "params": "parameters",
}
_COUNTS = ("params", "float_ops")


def report(profile: ModelProfile, view: View, root: ViewPlace, options: ProfileOptions) -> str:
    """What the columns mean, and the lines of a view that `view_of` made."""
    if view == "code" and not root.definitions:
        return "No code trace information\n"
    chosen = _chosen(options)
    lines = ["", "Doc:", f"{view}: {_ABOUT[view]}", *(_MEANS[name] for name in chosen)]
    lines += ["", "Profile:", " | ".join(["node name", *_columns(view, chosen)])]
    lines += _Lines(profile, view, root, options, chosen)
    return "\n".join([*lines, ""])


def framed(text: str, options: ProfileOptions) -> str:
    """A report as it is shown on a screen: below the options, between its beginning and its end."""
    return "\n".join(
        [
            "", "Options".center(61, "="), *_options(options), "",
            "Model Analysis Report".center(61, "="), text, "End of Report".center(61, "="), "",
        ]
    )  # fmt: skip


def _options(options: ProfileOptions) -> Iterator[str]:
    for each in fields(options):
        value: Any = getattr(options, each.name)
        if each.name == "dump_to_file":
            continue
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, tuple):
            value = ",".join(value if each.name != "select" else sorted(value))
        elif each.name == "output":
            kind, file = options.output_to
            value = f"{kind}:" + (f"outfile={file}" if file else "")
        yield f"-{each.name:<26} {value}"


def _chosen(options: ProfileOptions) -> list[str]:
    """What to show; the time in all brings its two parts with it."""
    chosen = {*options.select}
    if "micros" in chosen:
        chosen |= {*_TIMES}
    return [name for name in _MEANS if name in chosen]


def _columns(view: View, chosen: list[str]) -> Iterator[str]:
    order = _ORDER_IN_GROUPS if view in ("op", "code") else _ORDER_IN_TREES
    counted = "op count" if view in ("scope", "graph") else "op occurrence"
    for name in order:
        if name in chosen:
            yield f"{counted} (run|defined)" if name == "occurrence" else _TITLES[name]


_REST = ("device", "op_types", "occurrence", "input_shapes")
_ORDER_IN_TREES = (*_COUNTS, *_SIZES, *_TIMES, *_REST)
_ORDER_IN_GROUPS = (*_SIZES, *_TIMES, *_COUNTS, *_REST)


class _Lines:
    """The lines of a view, to go through once."""

    def __init__(
        self,
        profile: ModelProfile,
        view: View,
        root: ViewPlace,
        options: ProfileOptions,
        chosen: list[str],
    ) -> None:
        self._profile = profile
        self._view = view
        self._root = root
        self._options = options
        self._chosen = chosen

    def __iter__(self) -> Iterator[str]:
        if self._view == "op":
            for place in self._root.walk():
                if place is not self._root:
                    yield self._group(place)
            return
        yield from self._tree(self._root, 0)

    def _tree(self, place: ViewPlace, depth: int) -> Iterator[str]:
        parts = self._parts_of_code(place) if self._view == "code" else self._parts(place)
        yield f"{'  ' * depth}{place.name} ({', '.join(parts)})"
        for below in place.shown:
            yield from self._tree(below, depth + 1)

    def _parts(self, place: ViewPlace) -> Iterator[str]:
        yield from self._numbers(place, _ORDER_IN_TREES)
        devices = place.nodes[0].devices if place.nodes else []
        if "device" in self._chosen and devices:
            yield "|".join(devices)
        if "op_types" in self._chosen:
            yield "|".join(place.types)
        if "occurrence" in self._chosen:
            own = (place.own.run_count, 1) if place.account else ("--", "--")
            runs, count = place.total.run_count, place.definitions
            yield f"{own[0]}/{runs}|{own[1]}/{count}"
        if "input_shapes" in self._chosen:
            yield "|".join(_inputs(self._profile, place.nodes[0])) if place.nodes else ""

    def _parts_of_code(self, place: ViewPlace) -> Iterator[str]:
        yield from self._numbers(place, _ORDER_IN_GROUPS)
        if "device" in self._chosen and any(devices := _devices(place)):
            yield "|".join(devices)
        if "op_types" in self._chosen:
            yield "|".join(_types(place))
        for name in ("occurrence", "input_shapes"):
            if name in self._chosen:
                yield f"{name} N/A in code view"

    def _numbers(self, place: ViewPlace, order: tuple[str, ...]) -> Iterator[str]:
        for name in order:
            if name not in self._chosen or name in _REST:
                continue
            said = _said(name)
            of = _FIELDS.get(name, name)
            own = said(getattr(place.own, of)) if place.account else "--"
            unit = {"params": " params", "float_ops": " flops"}.get(name, "")
            text = f"{own}/{said(getattr(place.total, of))}{unit}"
            shape = place.nodes[0].shape if name == "params" and place.nodes else None
            if self._view in ("scope", "graph") and shape is not None and place.account:
                text = f"{_shape(shape)}, {text}"
            yield text

    def _group(self, place: ViewPlace) -> str:
        cells = []
        for name in _ORDER_IN_GROUPS:
            if name not in self._chosen or name in _REST:
                continue
            of = _FIELDS.get(name, name)
            own, total = getattr(place.own, of), getattr(place.total, of)
            unit = f" {name}" if name in _COUNTS else ""
            whole = getattr(self._root.total, of)
            if name in _SIZES and not own:
                total = 0
            shares = f"({_percent(total, whole)}, {_percent(own, whole)})"
            cells.append(f"{_said(name)(own)}{unit} {shares}".rjust(30))
        if "device" in self._chosen:
            cells.append("|".join(_devices(place)))
        if "op_types" in self._chosen:
            cells.append("|".join(_types(place)))
        if "occurrence" in self._chosen:
            cells.append(f"{place.own.run_count}|{len(place.nodes)}".rjust(10))
        line = place.name.ljust(25) + ", ".join(cells)
        if "input_shapes" not in self._chosen:
            return line
        return "\n".join([f"{line}\n", *self._inputs(place), ""])

    def _inputs(self, place: ViewPlace) -> Iterator[str]:
        """Nodes by the shapes that they are given, those that ran most often first."""
        kinds: dict[str, list[int]] = {}
        for node in place.nodes:
            own = node.numbers(self._options.step)
            shapes = ",\t".join(_inputs(self._profile, node))
            sums = kinds.setdefault(shapes, [0, 0, 0])
            for at, value in enumerate((own.exec_micros, own.run_count, 1)):
                sums[at] += value
        ordered = sorted(kinds.items(), key=lambda kind: (-kind[1][1], kind[0]))
        for shapes, (micros, runs, count) in ordered:
            ran = f"(run*{runs}|defined*{count})"
            yield f"input_type: {shapes}\t{ran}\texec_time: {time_text(micros)}"


def _inputs(profile: ModelProfile, node: ProfiledNode) -> list[str]:
    shapes = sorted(profile.input_shapes(node).items())
    return [f"{place}:{'unknown' if s is None else _shape(s)}" for place, s in shapes]


def _devices(place: ViewPlace) -> list[str]:
    """All devices; of a node that did not run the empty name."""
    return sorted({device for node in place.nodes for device in node.devices or [""]})


def _types(place: ViewPlace) -> list[str]:
    return sorted({kind for node in place.nodes for kind in node.types})


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole if whole else 0:.2f}%"


def _said(name: str) -> Callable[[int], str]:
    if name in _SIZES:
        return _size
    return time_text if name in _TIMES else _count


def _size(size: int) -> str:
    return _scaled(size, "B", ("KB", "MB", "GB"))


def _count(count: int) -> str:
    return _scaled(count, "", ("k", "m", "b"))


def time_text(micros: int) -> str:
    """A time as reports have it."""
    if micros >= 1_000_000:
        return f"{micros / 1e6:.2f}sec"
    return f"{micros / 1e3:.2f}ms" if micros >= 1000 else f"{micros}us"


def _scaled(value: int, unit: str, larger: tuple[str, str, str]) -> str:
    if value < 1000:
        return f"{value}{unit}"
    power = 2 if value < 1_000_000 else 3 if value < 1_000_000_000 else 4
    return f"{value / 1000 ** (power - 1):.2f}{larger[power - 2]}"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape or (1,)))
