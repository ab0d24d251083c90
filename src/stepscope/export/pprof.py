"""Runs as a profile for `pprof`: sums over all of them by layer, line, op type and node.

The format is pprof's `profile.proto`, compressed with gzip: `go tool pprof`, speedscope, Perfetto,
Grafana's Pyroscope and Google's Cloud Profiler read it.

A sample is what the executions of a node on a device came to. Its stack goes, from the root, down
the layers (`encoder`, `attention`), to the line of the program that made the node (`train.py:12`),
to the op type (`MatMul`). Its values are the node's own time (nanoseconds, without what ran inside
of it on the same thread), how often it ran, and the bytes that it put out; its labels are the node
and the device. Where a line or a layer is not known its frame is left out.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf import descriptor_pb2

from stepscope._messages import message_classes
from stepscope.analysis.profile.layers import PlaceKind, layers_of
from stepscope.analysis.run_length import run_span
from stepscope.analysis.runs import Runs, iter_named_runs
from stepscope.metadata.readable import writable
from stepscope.metadata.self_times import self_times
from stepscope.whole_files import write_whole

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from stepscope.metadata import RunMetadata

__all__ = ["pprof"]

VALUES: Final = (("time", "nanoseconds"), ("executions", "count"), ("output", "bytes"))
_NAMED_BY_SCOPES: Final = (PlaceKind.LAYER, PlaceKind.LOSS, PlaceKind.METRICS)
_Field = descriptor_pb2.FieldDescriptorProto
_MESSAGES: Final = {
    "ValueType": ("type 1", "unit 2"),
    "Label": ("key 1", "str 2"),
    "Sample": ("location_id 1 *uint", "value 2 *", "label 3 *Label"),
    "Line": ("function_id 1 uint", "line 2"),
    "Location": ("id 1 uint", "line 4 *Line"),
    "Function": ("id 1 uint", "name 2", "system_name 3", "filename 4", "start_line 5"),
    "Profile": (
        "sample_type 1 *ValueType", "sample 2 *Sample", "location 4 *Location",
        "function 5 *Function", "string_table 6 *string", "time_nanos 9", "duration_nanos 10",
        "default_sample_type 14",
    ),
}  # fmt: skip
"""The fields that are written, with pprof's names and numbers: numbers, unless it is said."""


class _Node(NamedTuple):
    """What is summed up: a node, where it belongs, and where it ran."""

    name: str
    op: str
    device: str
    line: str
    layers: tuple[str, ...]


def pprof(runs: Runs, path: str | os.PathLike[str]) -> Path:
    """Write the profile of some runs to `path` and return the path.

    `runs` may be an iterator that loads them: one at a time is in memory. The file is compressed
    whatever it is called, and complete or not there.

    >>> pprof("stepscope-out/train", "train.pb.gz")  # doctest: +SKIP
    """
    sums: defaultdict[_Node, list[int]] = defaultdict(lambda: [0, 0, 0])
    began, ended = 0, 0
    for run in iter_named_runs(runs):
        first, last = run_span(run.metadata)
        began, ended = min(began or first, first), max(ended, last)
        for node, ns, size in _executions(run.metadata):
            for place, value in enumerate((ns, 1, size)):
                sums[node][place] += value
    content = _Profile().of(sums, began, ended)
    packed = str(path).endswith(".gz")  # then it is compressed on its way
    return write_whole(path, [content if packed else gzip.compress(content, mtime=0)])


def _executions(run: RunMetadata) -> Iterator[tuple[_Node, int, int]]:
    """Each with its own time and its bytes."""
    ops = run.ops
    if not len(ops):
        return
    places, sources = layers_of(run), run.sources
    own = self_times(ops.start_ns, ops.end_ns, ops.thread)
    rows = zip(
        ops.node.tolist(), ops.name.tolist(), ops.op.tolist(), ops.device.tolist(), own.tolist(),
        ops.output_bytes.tolist(), strict=True,
    )  # fmt: skip
    for number, name, op, device, ns, size in rows:
        place = places[number]
        scopes = place.layer.split("/") if place.kind in _NAMED_BY_SCOPES and place.layer else ()
        yield _Node(name, op, device, sources.get(name, ""), tuple(scopes)), ns, max(0, size)


class _Profile:
    """A profile in the making: strings, functions and locations are in it once each."""

    def __init__(self) -> None:
        self._profile = _CLASSES["stepscope.pprof.Profile"]()
        self._strings: dict[str, int] = {}
        self._locations: dict[tuple[str, str, int], int] = {}
        self._text("")  # by definition the first one

    def of(self, sums: dict[_Node, list[int]], began_ns: int, ended_ns: int) -> bytes:
        profile = self._profile
        for name, unit in VALUES:
            profile.sample_type.add(type=self._text(name), unit=self._text(unit))
        profile.default_sample_type = self._text(VALUES[0][0])
        profile.time_nanos, profile.duration_nanos = began_ns, ended_ns - began_ns
        for node, values in sums.items():
            sample = profile.sample.add(location_id=self._stack(node), value=values)
            for key, text in (("node", node.name), ("device", node.device)):
                if text:
                    sample.label.add(key=self._text(key), str=self._text(text))
        content: bytes = profile.SerializeToString(deterministic=True)
        return content

    def _stack(self, node: _Node) -> list[int]:
        """The locations of a node, the innermost first."""
        source, _, number = node.line.rpartition(":")
        line = int(number) if source and number.isdecimal() else 0
        frames = [(scope, "", 0) for scope in node.layers]
        if line:
            short = source.replace("\\", "/").rpartition("/")[2]
            frames.append((f"{short}:{line}", source, line))
        frames.append((node.op or "(unknown op)", source if line else "", line))
        return [self._location(*frame) for frame in reversed(frames)]

    def _location(self, name: str, source: str, line: int) -> int:
        known = self._locations.get((name, source, line))
        if known is not None:
            return known
        number = self._locations[name, source, line] = len(self._locations) + 1
        text = self._text(name)
        self._profile.function.add(
            id=number, name=text, system_name=text, filename=self._text(source), start_line=line
        )
        self._profile.location.add(id=number).line.add(function_id=number, line=line)
        return number

    def _text(self, text: str) -> int:
        number = self._strings.get(text)
        if number is None:
            number = self._strings[text] = len(self._strings)
            self._profile.string_table.append(writable(text))
        return number


def _described() -> descriptor_pb2.FileDescriptorProto:
    described = descriptor_pb2.FileDescriptorProto(
        name="stepscope/pprof.proto", package="stepscope.pprof", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = described.message_type.add(name=name)
        for text in fields:
            called, number, *rest = text.split()
            kind = "".join(rest)
            repeated = _Field.LABEL_REPEATED if kind.startswith("*") else _Field.LABEL_OPTIONAL
            field = message.field.add(name=called, number=int(number), label=repeated)
            kind = kind.removeprefix("*")
            if kind in _MESSAGES:
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".stepscope.pprof.{kind}"
            else:
                field.type = {
                    "": _Field.TYPE_INT64, "uint": _Field.TYPE_UINT64, "string": _Field.TYPE_STRING,
                }[kind]  # fmt: skip
    return described


_CLASSES: Final[dict[str, Any]] = message_classes(_described())
