"""Where the time went by layer: a tree of scopes, forward, backward and optimizer together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepscope.analysis.profile import layers
from stepscope.analysis.profile.layers import PlaceKind, layers_of
from stepscope.analysis.profile.op_profile import profile_by
from stepscope.analysis.result import Result, made_of
from stepscope.metadata.strings import StringColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stepscope.analysis.profile.op_profile import OpRow
    from stepscope.analysis.runs import Runs
    from stepscope.metadata import RunMetadata

__all__ = ["LayerProfile", "LayerRow", "ModelTime", "layer_profile"]

_APART = "\t"
_OF_MODEL = "model"


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A layer with all that is below it.

    `key` is its path, `depth` how far down it is, 0 for the outermost. `self_ns` is the time of its
    ops (see `OpRow`) and `share` the part of the whole; `own_ns` is the time of those of them that
    are in no layer below it. `forward_ns`, `backward_ns`, `optimizer_ns` and `other_ns` (of input,
    metrics and eager code, which have no such parts) add up to `self_ns`.
    """

    key: str
    depth: int
    calls: int
    self_ns: int
    share: float
    own_ns: int
    forward_ns: int
    backward_ns: int
    optimizer_ns: int
    other_ns: int
    total_ns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ModelTime:
    """What the runs that execute layers did, apart from what a program does around its model.

    `self_ns` is the work of these runs without what they took of the input, `input_ns`. It is the
    sum of the others: in layers (with what the optimizer did for each), in the loss and the
    metrics, of the optimizer for all layers at once, by lines of the program outside of any layer
    (a loss written by hand, for example), and of what nothing is known.
    """

    runs: int = 0
    self_ns: int = 0
    layers_ns: int = 0
    loss_ns: int = 0
    metrics_ns: int = 0
    optimizer_ns: int = 0
    lines_ns: int = 0
    unnamed_ns: int = 0
    input_ns: int = 0

    @property
    def in_layers(self) -> float:
        """The share of the layers, the loss among them: it is the last layer of what is trained."""
        return (self.layers_ns + self.loss_ns) / self.self_ns if self.self_ns else 0.0


@dataclass(frozen=True, slots=True)
class LayerProfile(Result):
    """Rows in the order of the tree: a layer before those below it, the largest first.

    The rest is as in `OpProfile`, and the same; rows of depth 0 add up to it. `named` is the part
    of the time that is in a named layer, or of a line of the program. `model` is what the runs
    that execute layers did; the others are what the program does around its model.
    """

    rows: tuple[LayerRow, ...]
    runs: int
    calls: int
    total_ns: int
    self_ns: int
    covered_ns: int
    named: float
    model: ModelTime = ModelTime()
    not_ok: Mapping[str, int] = field(default_factory=dict)

    @property
    def parallelism(self) -> float:
        """How many ops ran at once, on average over the time in which any did."""
        return self.self_ns / self.covered_ns if self.covered_ns else 0.0

    def __iter__(self) -> Iterator[LayerRow]:
        """Over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)


@dataclass(slots=True)
class _Sums:
    calls: int = 0
    self_ns: int = 0
    own_ns: int = 0
    total_ns: int = 0
    bytes: int = 0
    phases: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    below: dict[str, _Sums] = field(default_factory=dict)


def layer_profile(runs: Runs, depth: int | None = None) -> LayerProfile:
    """Sum up the executions of runs by layer, down to so many levels (1 or more); None for all."""
    if depth is not None and depth < 1:
        raise ValueError(f"depth must be 1 or more; it was {depth}")
    of_model = 0

    def groups(run: RunMetadata) -> StringColumn:
        nonlocal of_model
        places = layers_of(run)
        which = ""
        if any(places[node].kind is PlaceKind.LAYER for node in set(run.ops.node.tolist())):
            of_model, which = of_model + 1, _OF_MODEL
        keys = StringColumn.of(
            [_APART.join((which, place.kind, place.layer, place.phase)) for place in places]
        )
        return StringColumn(keys.codes[run.ops.node], keys.table)

    flat = profile_by(runs, "layer", groups)
    top = _tree(flat.rows, depth)
    unnamed = top.below.get(layers.NO_LAYER)
    return made_of(
        LayerProfile(
            rows=tuple(_rows(top, flat.self_ns, "", 0)),
            runs=flat.runs,
            calls=flat.calls,
            total_ns=flat.total_ns,
            self_ns=flat.self_ns,
            covered_ns=flat.covered_ns,
            model=_model_time(flat.rows, of_model),
            named=1 - (unnamed.self_ns / flat.self_ns if unnamed and flat.self_ns else 0.0),
            not_ok=flat.not_ok,
        ),
        runs,
    )


def _tree(rows: Iterable[OpRow], depth: int | None) -> _Sums:
    top = _Sums()
    for row in rows:
        path, phase = row.key.split(_APART, 2)[2].rsplit(_APART, 1)
        node = top
        for part in path.split("/")[:depth]:
            node = node.below.setdefault(part, _Sums())
            node.calls += row.calls
            node.self_ns += row.self_ns
            node.total_ns += row.total_ns
            node.bytes += row.bytes
            node.phases[phase] += row.self_ns
        node.own_ns += row.self_ns
    return top


def _model_time(rows: Iterable[OpRow], runs: int) -> ModelTime:
    times: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        which, kind, _ = row.key.split(_APART, 2)
        if which == _OF_MODEL:
            times[kind] += row.self_ns
    return ModelTime(
        runs=runs,
        self_ns=sum(times.values()) - times[PlaceKind.INPUT],
        layers_ns=times[PlaceKind.LAYER],
        loss_ns=times[PlaceKind.LOSS],
        metrics_ns=times[PlaceKind.METRICS],
        optimizer_ns=times[PlaceKind.OPTIMIZER],
        lines_ns=times[PlaceKind.LINE],
        unnamed_ns=times[PlaceKind.NONE],
        input_ns=times[PlaceKind.INPUT],
    )


def _rows(node: _Sums, whole: int, above: str, depth: int) -> Iterator[LayerRow]:
    for name, sums in sorted(node.below.items(), key=lambda item: (-item[1].self_ns, item[0])):
        path = f"{above}/{name}" if above else name
        yield LayerRow(
            key=path,
            depth=depth,
            calls=sums.calls,
            self_ns=sums.self_ns,
            share=sums.self_ns / whole if whole else 0.0,
            own_ns=sums.own_ns,
            forward_ns=sums.phases[layers.FORWARD],
            backward_ns=sums.phases[layers.BACKWARD],
            optimizer_ns=sums.phases[layers.OPTIMIZER],
            other_ns=sums.phases[layers.OTHER],
            total_ns=sums.total_ns,
            bytes=sums.bytes,
        )
        yield from _rows(sums, whole, path, depth + 1)
