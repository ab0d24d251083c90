"""Places that are needed and are not in the executed graph: folded, fused, merged, taken out ...

What a consumer that was kept reads now, where it read such a place before, is the best evidence:
a constant (it was folded), an input of the place (it was taken out), a node that computes the same
(it was a duplicate). Where no consumer was kept, names and the shape of the graph have to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.analysis.coverage.executed import by_folding, cluster_of, path_of, plain_op
from stepscope.analysis.coverage.fate import CONTROL, Fate, summed
from stepscope.analysis.coverage.values import (
    PASS_THROUGH,
    SHAPE_OPS,
    producers_first,
    value_numbers,
)

if TYPE_CHECKING:
    from stepscope.analysis.coverage.reasons import Reasons

_NEUTRAL: Final = frozenset(
    {
        *("Transpose", "Reshape", "Squeeze", "ExpandDims", "Cast", "Mul", "AddV2", "Add", "Sub"),
        *("RealDiv", "Div", "DivNoNan", "Pow", "BroadcastTo", "Tile", "Slice", "StridedSlice"),
        *("Pad", "PadV2", "ConcatV2", "Concat", "AddN", "Pack", "ReverseV2", "Sum", "Mean", "Max"),
        *("Min", "Prod", "All", "Any", "Neg", "Invert", "Reciprocal", "LogicalNot", "Conj"),
        *("Select", "SelectV2", "Split", "SplitV", "LogicalAnd", "LogicalOr", "Real"),
    }
)
"""Ops that an optimiser takes out where they change nothing: times one, a transpose undone ..."""

_GONE: Final = frozenset({"folded", "no-op", "duplicate", "pruned", "rewritten", "fused"})
_OPENED: Final = frozenset({"lowered", "inlined"})


class AbsentPlaces:
    """Fills in the verdicts that are still missing."""

    def __init__(self, reasons: Reasons) -> None:
        self.graph = reasons.graph
        self.run = reasons.run
        self.verdicts = reasons.verdicts
        self.kept = reasons.kept
        self.made = reasons.made
        self.replaced = reasons.replaced
        self.vanished = reasons.vanished
        self.nodes = reasons.spaces.nodes
        self.known = reasons.spaces.known
        self.needed = reasons.needed
        self.is_fetched = reasons.is_fetched
        self.lost_cheap_ops = reasons.lost_cheap_ops
        self.order = producers_first(self.graph)
        self.constants_recorded = reasons.constants_recorded

    def judge(self) -> None:
        """A verdict for every place that the evidence explains."""
        self._number()
        self.used = self._find_used()
        self.needers: list[list[int]] = [[] for _ in self.graph.places]
        for at, place in enumerate(self.graph.places):
            if self.needed[at]:
                for source in place.needs:
                    self.needers[source].append(at)
                for source in place.waits:
                    if not self.used[source]:
                        self.needers[source].append(at)
        self.stands = self._find_stand_ins()
        for at in self.order:
            if self.verdicts[at] is None:
                self.verdicts[at] = (
                    self._rewritten(at)
                    or self._unused(at)
                    or self._duplicate(at)
                    or self._folded(at)
                )
        for at in self.vanished:
            if self.verdicts[at] is None:
                is_constant = self.graph.places[at].op == "Const"
                self.verdicts[at] = Fate("folded" if is_constant else "unknown")
        self._mark_clusters()
        self._mark_fused()
        for at in self.order:
            if self.verdicts[at] is None:
                self.verdicts[at] = self._neutral(at)
        for at in reversed(self.order):
            if self.verdicts[at] is None:
                self.verdicts[at] = self._from_consumers(at)

    # -- evidence --------------------------------------------------------------------------

    def _number(self) -> None:
        self.numbers = value_numbers(self.graph, self.order)
        self.survivors: dict[int, int] = {}
        for at in self.order:
            if self.kept[at] is not None and self.graph.places[at].op not in PASS_THROUGH:
                self.survivors.setdefault(self.numbers[at], at)

    def _find_used(self) -> bytearray:
        """Places whose value something uses, and not only that they have run."""
        places = self.graph.places
        used = bytearray(len(places))
        stack = []
        for at, place in enumerate(places):
            kept = self.kept[at]
            idle = kept is not None and kept.op == "NoOp" and place.op not in CONTROL
            if (kept is not None and not idle) or at in self.made or self.is_fetched(at):
                stack.append(at)
                if kept is not None or self.is_fetched(at):
                    stack.extend(self.graph.results.get(at, ()))
            elif place.op in CONTROL and self.needed[at]:
                stack.append(at)
        while stack:
            at = stack.pop()
            if not used[at]:
                used[at] = 1
                stack.extend(places[at].needs)
        return used

    def _find_stand_ins(self) -> dict[int, str]:
        """What kept consumers and results read now, by the absent place they read before."""
        found: dict[int, str] = {}
        for at, kept in enumerate(self.kept):
            place = self.graph.places[at]
            if kept is None or plain_op(kept.op) != place.op:
                continue
            mine = [(i, self.graph.places[i].path if i >= 0 else "") for i in place.inputs]
            if any(i >= 0 and self.kept[i] is None for i in place.inputs):
                found.update(_pair(mine, list(kept.inputs)))
        for name, path in self.run.fetched.items():
            source = self.graph.scopes[0].names.get(name)
            if path and source is not None and self.kept[source] is None:
                found[source] = path
        for at in reversed(self.order):
            place = self.graph.places[at]
            if at in found and place.op in PASS_THROUGH and len(place.inputs) == 1:
                found.setdefault(place.inputs[0], found[at])
        return found

    def _is_constant(self, at: int) -> bool:
        while at >= 0:
            verdict, place = self.verdicts[at], self.graph.places[at]
            kept = self.kept[at]
            if place.op == "Const" or (kept is not None and kept.op == "Const"):
                return True
            if verdict is not None and verdict.state == "folded":
                return True
            if kept is not None or place.op not in PASS_THROUGH or not place.inputs:
                return False
            at = place.inputs[0]
        return False

    def _names_of_value(self, at: int) -> set[str]:
        """The executed names that hold the value of a place."""
        names: set[str] = set()
        for _ in range(1000):
            if at < 0:
                break
            place = self.graph.places[at]
            names.add(place.path)
            names.add(self.stands.get(at, place.path))
            names.update(path_of(kept.name) for kept in self.made.get(at, ()))
            verdict = self.verdicts[at]
            if verdict is not None and verdict.state == "duplicate":
                names.add(verdict.detail)
            passes = place.op in PASS_THROUGH or (verdict is not None and verdict.state == "no-op")
            if self.kept[at] is not None or not passes or not place.inputs:
                break
            at = next((i for i in place.inputs if not self._is_constant(i)), -1)
        return names

    # -- rules by what is there ------------------------------------------------------------

    def _rewritten(self, at: int) -> Fate | None:
        made = self.made.get(at)
        if not made:
            return None
        self.replaced.add(at)
        rows = [row for kept in made for row in self.run.ran.get(path_of(kept.name), ())]
        works = [kept for kept in made if kept.op not in ("Const", "Identity", "NoOp")]
        if not works and by_folding(made[0].name):
            return summed("folded", f"into {made[0].name}", rows)
        chosen = (works or made)[-1]
        return summed("rewritten", f"{chosen.name} ({chosen.op})", rows)

    def _unused(self, at: int) -> Fate | None:
        if self.used[at]:
            return None
        if self.graph.places[at].op in PASS_THROUGH:
            return Fate("no-op")
        return Fate("pruned", "its value is not used")

    def _duplicate(self, at: int) -> Fate | None:
        place = self.graph.places[at]
        if place.op in PASS_THROUGH:
            return None
        stand_in = self.nodes.get(place.scope.space, {}).get(self.stands.get(at, ""))
        if stand_in is not None and stand_in.op == place.op == "Const":
            return Fate("duplicate", stand_in.name)
        if place.op == "Const" and not any(map(self._remains, self.needers[at])):
            return None
        twin = self.survivors.get(self.numbers[at], at)
        if twin == at:
            return None
        return Fate("duplicate", self.graph.places[twin].path)

    def _remains(self, at: int) -> bool:
        verdict = self.verdicts[at]
        opened = verdict is not None and verdict.state in _OPENED
        return opened or self.kept[at] is not None

    def _folded(self, at: int) -> Fate | None:
        place = self.graph.places[at]
        if place.op == "Const" or place.op in PASS_THROUGH:
            return None
        stand_in = self.nodes.get(place.scope.space, {}).get(self.stands.get(at, ""))
        if place.op in SHAPE_OPS or (stand_in is not None and stand_in.op == "Const"):
            return Fate("folded")
        if place.inputs and all(map(self._is_constant, place.inputs)):
            return Fate("folded")
        return None

    def _mark_clusters(self) -> None:
        """XLA's own clusters: what lies behind the cluster that something kept now reads."""
        for at, path in self.stands.items():
            cluster = cluster_of(path)
            if cluster:
                self._mark_behind([at], "in XLA cluster", cluster)

    def _mark_fused(self) -> None:
        heads = [
            (at, kept)
            for at, kept in enumerate(self.kept)
            if kept is not None and kept.fuses and plain_op(kept.op) != self.graph.places[at].op
        ]
        heads += [
            (at, kept)
            for at, made in self.made.items()
            for kept in made
            if kept.fuses or "/Fuse" in kept.name or "/Fold" in kept.name
        ]
        for at, kept in heads:
            self._mark_behind(self.graph.places[at].inputs, "fused", kept.name)

    def _mark_behind(self, sources: list[int], state: str, detail: str) -> None:
        """Everything not yet explained between here and what was kept."""
        stack, seen = list(sources), set(sources)
        while stack:
            at = stack.pop()
            if at < 0 or self.verdicts[at] is not None:
                continue
            place = self.graph.places[at]
            if state != "fused" or not (place.op in PASS_THROUGH or place.op == "Const"):
                self.verdicts[at] = Fate(state, detail)
            stack.extend(i for i in place.inputs if i not in seen)
            seen.update(place.inputs)

    def _neutral(self, at: int) -> Fate | None:
        place = self.graph.places[at]
        if place.op in PASS_THROUGH:
            return Fate("no-op")
        varying = {i for i in place.inputs if not self._is_constant(i)}
        stand_in = self.stands.get(at)
        if stand_in and any(stand_in in self._names_of_value(i) for i in varying):
            return self._taken_in(stand_in, place.scope.space) or Fate("no-op")
        if place.op in _NEUTRAL and place.scope.space in self.known and len(varying) == 1:
            return Fate("no-op") if self._read_by_others(at) else None
        return None

    def _taken_in(self, path: str, space: int) -> Fate | None:
        """Where the producer that consumers read now does more than it did: fused into it."""
        kept = self.nodes.get(space, {}).get(path)
        if kept is None or not kept.fuses:
            return None
        at = next((i for i in range(len(self.kept)) if self.kept[i] is kept), None)
        if at is None or plain_op(kept.op) == self.graph.places[at].op:
            return None
        return Fate("fused", kept.name)

    def _read_by_others(self, at: int) -> bool:
        """Whether a consumer is still there, and so must read something in its place."""
        stack, seen = [at], {at}
        while stack:
            current = stack.pop()
            if self.is_fetched(current):
                return True
            for consumer in self.needers[current]:
                kept = self.kept[consumer]
                if kept is not None or consumer in self.made:
                    if kept is None or kept.op not in ("Const", "NoOp"):
                        return True
                    continue
                verdict = self.verdicts[consumer]
                state = verdict.state if verdict is not None else ""
                if state in ("fused", "rewritten", "in XLA cluster", "lowered", "inlined"):
                    return True
                gone = self.graph.places[consumer].op
                if consumer not in seen and (gone in PASS_THROUGH or gone in _NEUTRAL):
                    seen.add(consumer)
                    stack.append(consumer)
        return False

    # -- rules by what became of the consumers ---------------------------------------------

    def _from_consumers(self, at: int) -> Fate | None:
        place = self.graph.places[at]
        known = place.scope.space in self.known
        needers = self.needers[at]
        fates = [self.verdicts[n] or Fate("unknown") for n in needers]
        states = {fate.state for fate in fates}
        first = self.graph.places[needers[0]].path if needers else ""
        if place.op == "Const":
            return self._absorbed(states, fates, first, known, self.constants_recorded)
        if not known or not needers or self.is_fetched(at):
            return Fate("too cheap") if self.lost_cheap_ops else None
        if states == {"in XLA cluster"}:
            return Fate("in XLA cluster", fates[0].detail)
        changed = [n for n in needers if n in self.made or self._changed(n)]
        if changed:
            return Fate("rewritten", f"with {self.graph.places[changed[0]].path}")
        if states == {"duplicate"}:
            return Fate("duplicate", f"with {first}")
        if states <= _GONE:
            return Fate("pruned", f"only {first} used it")
        if states <= _GONE | _OPENED | {"branch not taken"}:
            return Fate("pruned", f"{first} does not use it")
        return None

    @staticmethod
    def _absorbed(
        states: set[str], fates: list[Fate], first: str, known: bool, constants_recorded: bool
    ) -> Fate | None:
        """A constant that is gone went where its consumers went."""
        if not fates or states == {"unknown"}:
            return None
        if len(states) == 1 and states <= {"in XLA cluster", "fused"}:
            return Fate(fates[0].state, fates[0].detail)
        if not known and "measured" in states:
            return Fate("unknown" if constants_recorded else "constant")
        if states <= {"no-op", "duplicate", "branch not taken", "pruned"}:
            state = fates[0].state
            return Fate(state, f"only {first} used it" if state == "pruned" else f"with {first}")
        if states <= _OPENED:
            return Fate("pruned", f"{first} does not use it")
        return Fate("folded", f"into {first}")

    def _changed(self, at: int) -> bool:
        """Whether the optimiser put another op under this name."""
        kept, op = self.kept[at], self.graph.places[at].op
        if kept is None or op in CONTROL or kept.op in ("Const", "NoOp"):
            return False
        return plain_op(kept.op) != op


def _pair(mine: list[tuple[int, str]], theirs: list[str]) -> dict[int, str]:
    """Which of the inputs a node has now stands for which it had: by order, names that stay apart.

    Optimisers may swap the inputs of an op where order does not matter, so that inputs which are
    still there are matched by name before the others by position.
    """
    if len(mine) != len(theirs):
        return {}
    paths = {path for _, path in mine}
    new = [path for path in theirs if path not in paths]
    gone = [i for i, path in mine if path not in theirs]
    in_order = all(m == t for (_, m), t in zip(mine, theirs, strict=True) if t in paths)
    if in_order:
        return {i: t for (i, m), t in zip(mine, theirs, strict=True) if i >= 0 and m != t}
    if len(new) == len(gone) == 1 and gone[0] >= 0:
        return {gone[0]: new[0]}
    return {}
