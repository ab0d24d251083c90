"""Why a place of the user's graph has no measurement of its own, from what was executed instead.

The graph as executed is compared with the user's. What stands there under its own name was kept;
a constant of that name was folded; an op made of several took in the nodes between its name and
its inputs; of two that compute the same value one was kept; and so on. Each rule needs evidence,
and a place that none explains is unknown.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stepscope.analysis._coverage_executed import (
    Executed,
    Kept,
    Ran,
    best_graphs,
    by_folding,
    cluster_of,
    openers_of_name,
    path_of,
    plain_op,
    sources_of_name,
)
from stepscope.analysis._coverage_graph import CALLS, CONDITIONALS, LOOPS, OpenedGraph, Scope
from stepscope.analysis._coverage_values import (
    PASS_THROUGH,
    SHAPE_OPS,
    producers_first,
    value_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONTROL: Final = CALLS | CONDITIONALS | LOOPS
_NEUTRAL: Final = frozenset(
    {
        *("Transpose", "Reshape", "Squeeze", "ExpandDims", "Cast", "Mul", "AddV2", "Add", "Sub"),
        *("RealDiv", "Div", "DivNoNan", "Pow", "BroadcastTo", "Tile", "Slice", "StridedSlice"),
        *("Pad", "PadV2", "ConcatV2", "Concat", "AddN", "Pack", "ReverseV2", "Sum", "Mean", "Max"),
        *("Min", "Prod", "All", "Any", "Neg", "Invert", "Reciprocal", "LogicalNot", "Conj"),
        *("Select", "SelectV2", "Split", "SplitV", "LogicalAnd", "LogicalOr", "Real", "Relu"),
    }
)
"""Ops that an optimiser takes out where they change nothing: times one, a transpose undone ..."""

_SWITCHES: Final = frozenset({"Switch", "RefSwitch", "_SwitchN", "RefSwitchN"})
_PIVOTS: Final = {"pivot_t": "then", "pivot_f": "else"}


class Verdict:
    """What became of a place."""

    __slots__ = ("detail", "executions", "state", "total_ns")

    def __init__(
        self, state: str, detail: str = "", executions: int = 0, total_ns: int = 0
    ) -> None:
        self.state = state
        self.detail = detail
        self.executions = executions
        self.total_ns = total_ns


class Reasons:
    """Finds a verdict for every place. `run_ended_early` and `lost_cheap_ops` come from the run."""

    def __init__(
        self,
        graph: OpenedGraph,
        run: Executed,
        spaces: Spaces,
        *,
        ended_early: bool,
        lost_cheap_ops: bool,
    ) -> None:
        self.graph = graph
        self.run = run
        self.ended_early = ended_early
        self.lost_cheap_ops = lost_cheap_ops
        self.known = spaces.known
        self.apart = spaces.apart
        count = len(graph.places)
        self.verdicts: list[Verdict | None] = [None] * count
        self.added: Counter[str] = Counter()
        self.added_ns = 0
        self._spaces = spaces.nodes
        self._kept: list[Kept | None] = [
            spaces.nodes.get(place.scope.space, {}).get(place.path) for place in graph.places
        ]
        self._timed: list[list[Ran]] = [[] for _ in range(count)]
        self._made: dict[int, list[Kept]] = {}
        self._control: dict[int, list[Ran]] = {}
        self._live_scopes: set[int] = set()

    def find(self) -> list[Verdict]:
        """The verdicts, one per place."""
        self._share_out()
        self._trace_names()
        self._needed = self._find_needed()
        self._dead = self._untaken()
        self._judge_kept()
        if any(verdict is None for verdict in self.verdicts):
            self._judge_absent()
        return [verdict or Verdict("unknown") for verdict in self.verdicts]

    # -- who ran ---------------------------------------------------------------------------

    def _share_out(self) -> None:
        """Give the executions to the places of that path; several places of one share them."""
        claims: dict[str, list[int]] = {}
        for at, place in enumerate(self.graph.places):
            if place.scope.cluster or place.scope.space in self.apart:
                self._kept[at] = None
            elif place.path in self.run.ran and self._kept[at] is not None:
                claims.setdefault(place.path, []).append(at)
        self._claimed = set(claims)
        for path, claimants in claims.items():
            for row in self.run.ran[path]:
                if len(claimants) == 1:
                    self._timed[claimants[0]].append(row)
                    continue
                kept = [(at, self._kept[at]) for at in claimants]
                same = [at for at, node in kept if node is not None and node.op == row.op]
                takers = (same or claimants)[: row.executions]
                for i, at in enumerate(takers):
                    part = (row.executions + i) // len(takers)
                    time = row.total_ns * part // row.executions
                    self._timed[at].append(Ran(row.name, row.op, part, time))

    def _trace_names(self) -> None:
        """Find out where names that are not the user's come from."""
        places = self.graph.places
        top: dict[str, int] = {}
        for at, place in enumerate(places):
            if place.scope.space == 0 or place.path not in top:
                top[place.path] = at
        openers = {places[at].path: at for at in self.graph.opened}
        for at, place in enumerate(places):
            if place.op in _CONTROL:
                openers.setdefault(place.path, at)
        names: dict[str, Kept | None] = dict.fromkeys(
            path for path in self.run.ran if path not in self._claimed
        )
        for nodes in self._spaces.values():
            names.update((path, node) for path, node in nodes.items() if path not in top)
        for path, node in names.items():
            rows = self.run.ran.get(path, ())
            source = next((top[p] for p in sources_of_name(path) if p in top), None)
            # "ConstantFoldingCtrl/" nodes stand at the exits of a conditional's switches.
            if source is not None and places[source].op not in _CONTROL:
                kept = node or Kept(rows[0].name, rows[0].op)
                self._made.setdefault(source, []).append(kept)
                self._live(places[source].scope, rows)
                continue
            opener = next((openers[p] for p in openers_of_name(path) if p in openers), None)
            if opener is None:
                self._count_added(path, rows)
                continue
            self._control.setdefault(opener, []).extend(rows)
            self._note_pivot(opener, path, rows)
        for at, place in enumerate(places):
            self._live(place.scope, self._timed[at])

    def _count_added(self, path: str, rows: Iterable[Ran]) -> None:
        for row in rows:
            if path not in self._claimed:
                self.added[row.op] += row.executions
                self.added_ns += row.total_ns

    def _live(self, scope: Scope, rows: Iterable[Ran]) -> None:
        if any(row.executions for row in rows):
            self._live_scopes.update(id(around) for around in scope.chain())

    def _note_pivot(self, opener: int, path: str, rows: Iterable[Ran]) -> None:
        rest = path.removeprefix(self.graph.places[opener].path + "/").partition("/")[0]
        label = _PIVOTS.get(rest) or rest.replace("pivot_", "branch")
        for scope in self.graph.opened.get(opener, ()):
            if scope.label == label:
                self._live(scope, rows)

    # -- what was needed -------------------------------------------------------------------

    def _find_needed(self) -> bytearray:
        places, fed = self.graph.places, self.run.fed
        needed = bytearray(len(places))
        stack = [
            at
            for at in range(len(places))
            if self._kept[at] is not None
            or at in self._made
            or at in self._control
            or self._is_fetched(at)
        ]
        while stack:
            at = stack.pop()
            if needed[at]:
                continue
            needed[at] = 1
            place = places[at]
            if place.scope.owner < 0 and place.name in fed:
                continue
            stack.extend(place.needs)
            if place.scope.owner >= 0:
                stack.append(place.scope.owner)
            if self._kept[at] is not None or self._is_fetched(at):
                stack.extend(self.graph.results.get(at, ()))
        return needed

    def _untaken(self) -> dict[int, str]:
        """The scopes that execution never entered, and how to say so."""
        found: dict[int, str] = {}
        places = self.graph.places
        waiting: dict[int, bool] = {}
        for at, place in enumerate(places):
            kept = self._kept[at]
            if kept is not None and kept.op not in ("Const", "NoOp") and not self._timed[at]:
                waiting[id(place.scope)] = True
        for owner, scopes in self.graph.opened.items():
            path = places[owner].path
            around = found.get(id(places[owner].scope))
            for scope in scopes:
                if around is not None:
                    found[id(scope)] = around
                elif id(scope) in self._live_scopes or scope.kind not in ("branch", "loop"):
                    continue
                elif scope.kind == "loop":
                    asked = any(id(s) in self._live_scopes for s in scopes)
                    if scope.label == "body" and (asked or waiting.get(id(scope))):
                        found[id(scope)] = f"body of {path}, which made no iteration"
                elif waiting.get(id(scope)) or any(id(s) in self._live_scopes for s in scopes):
                    found[id(scope)] = f"{scope.label} of {path}"
        return found

    # -- places that are in the executed graph ---------------------------------------------

    def _judge_kept(self) -> None:
        behind_switch: set[int] | None = None
        for at, place in enumerate(self.graph.places):
            scope, kept, rows = place.scope, self._kept[at], self._timed[at]
            dead = self._dead.get(id(scope))
            if scope.cluster:
                self.verdicts[at] = Verdict("in XLA cluster", scope.cluster)
            elif scope.space in self.apart:
                self.verdicts[at] = self._outside(scope)
            elif scope.owner < 0 and self._is_fed(at):
                self.verdicts[at] = Verdict("fed")
            elif place.op in _CONTROL and (kept is None or kept.op not in _CONTROL) and (
                kept is not None or self._needed[at]
            ):
                self.verdicts[at] = (
                    Verdict("branch not taken", dead) if dead else self._opened(at)
                )
            elif kept is None:
                if not self._needed[at]:
                    self.verdicts[at] = Verdict("pruned")
                elif dead:
                    self.verdicts[at] = Verdict("branch not taken", dead)
            elif kept.op == "Const" and place.op != "Const":
                self.verdicts[at] = self._summed("folded", "", rows)
            elif rows and (place.op != "Const" or any(row.total_ns for row in rows)):
                same = plain_op(kept.op) == place.op
                self.verdicts[at] = self._summed("measured", "" if same else f"as {kept.op}", rows)
            elif dead:
                self.verdicts[at] = Verdict("branch not taken", dead)
            elif place.op == "Const":
                self.verdicts[at] = self._summed("constant", "", rows)
            else:
                if behind_switch is None:
                    behind_switch = self._behind_switches()
                if at in behind_switch:
                    self.verdicts[at] = Verdict("branch not taken")
                elif self.ended_early:
                    self.verdicts[at] = Verdict("not reached")
                elif self.lost_cheap_ops:
                    self.verdicts[at] = Verdict("too cheap")
                else:
                    self.verdicts[at] = Verdict("unknown")

    def _outside(self, scope: Scope) -> Verdict:
        """Of a function that is executed as one, and has no row in the run's record."""
        owner = self.graph.places[scope.owner]
        if not self._needed[scope.owner]:
            return Verdict("pruned", f"only {owner.path} calls it")
        dead = self._dead.get(id(owner.scope))
        if dead:
            return Verdict("branch not taken", dead)
        if owner.op in _CONTROL:
            return Verdict("too cheap") if self.lost_cheap_ops else Verdict("unknown")
        return Verdict("outside the run", f"called by {owner.path}")

    def _is_fed(self, at: int) -> bool:
        place = self.graph.places[at]
        if place.name in self.run.fed:
            return True
        # A placeholder that a run needs was fed, or the run would have failed.
        return place.op == "Placeholder" and (self.run.arguments or bool(self._needed[at]))

    def _opened(self, at: int) -> Verdict:
        place = self.graph.places[at]
        rows = [*self._control.get(at, ()), *self._timed[at]]
        if place.op in CALLS:
            functions = [scope.function for scope in self.graph.opened.get(at, ())]
            return self._summed("inlined", ", ".join(functions), rows)
        return self._summed("lowered", "to " + ", ".join(sorted({r.op for r in rows})), rows)

    @staticmethod
    def _summed(state: str, detail: str, rows: list[Ran]) -> Verdict:
        executions = sum(row.executions for row in rows)
        return Verdict(state, detail, executions, sum(row.total_ns for row in rows))

    def _behind_switches(self) -> set[int]:
        places = self.graph.places
        found = set()
        for at in producers_first(self.graph):
            needs = places[at].needs
            if places[at].op in _SWITCHES or any(n in found for n in needs):
                found.add(at)
        return found

    # -- places that are not ---------------------------------------------------------------

    def _judge_absent(self) -> None:
        self._order = producers_first(self.graph)
        self._numbers = value_numbers(self.graph, self._order)
        self._survivors: dict[int, int] = {}
        for at in self._order:
            if self._kept[at] is not None and self.graph.places[at].op not in PASS_THROUGH:
                self._survivors.setdefault(self._numbers[at], at)
        self._needers: list[list[int]] = [[] for _ in self.graph.places]
        for at, place in enumerate(self.graph.places):
            if self._needed[at]:
                for source in place.needs:
                    self._needers[source].append(at)
        for at in self._order:
            if self.verdicts[at] is None:
                self.verdicts[at] = self._rewritten(at) or self._duplicate(at) or self._folded(at)
        self._mark_clusters()
        self._mark_fused()
        for at in self._order:
            if self.verdicts[at] is None:
                self.verdicts[at] = self._neutral(at)
        for at in reversed(self._order):
            if self.verdicts[at] is None:
                self.verdicts[at] = self._from_consumers(at)

    def _rewritten(self, at: int) -> Verdict | None:
        made = self._made.get(at)
        if not made:
            return None
        rows = [row for kept in made for row in self.run.ran.get(path_of(kept.name), ())]
        works = [kept for kept in made if kept.op not in ("Const", "Identity", "NoOp")]
        if not works and by_folding(made[0].name):
            return self._summed("folded", made[0].name, rows)
        chosen = (works or made)[-1]
        return self._summed("rewritten", f"{chosen.name} ({chosen.op})", rows)

    def _duplicate(self, at: int) -> Verdict | None:
        place = self.graph.places[at]
        if place.op in PASS_THROUGH:
            return None
        if place.op == "Const" and not any(map(self._remains, self._needers[at])):
            return None
        twin = self._survivors.get(self._numbers[at], at)
        if twin == at:
            return None
        return Verdict("duplicate", self.graph.places[twin].path)

    def _remains(self, at: int) -> bool:
        verdict = self.verdicts[at]
        opened = verdict is not None and verdict.state in ("lowered", "inlined")
        return opened or self._kept[at] is not None

    def _folded(self, at: int) -> Verdict | None:
        place = self.graph.places[at]
        if place.op in SHAPE_OPS:
            return Verdict("folded")
        if place.op == "Const" or place.op in PASS_THROUGH or not place.inputs:
            return None
        return Verdict("folded") if all(map(self._is_constant, place.inputs)) else None

    def _is_constant(self, at: int) -> bool:
        while at >= 0:
            verdict, place = self.verdicts[at], self.graph.places[at]
            kept = self._kept[at]
            if place.op == "Const" or (kept is not None and kept.op == "Const"):
                return True
            if verdict is not None and verdict.state == "folded":
                return True
            if kept is not None or place.op not in PASS_THROUGH or not place.inputs:
                return False
            at = place.inputs[0]
        return False

    def _mark_clusters(self) -> None:
        """XLA's own clusters: what lies behind the cluster that a kept node now reads."""
        consumers = [(at, kept.inputs) for at, kept in enumerate(self._kept) if kept is not None]
        for path, node in self._spaces.get(0, {}).items():
            if node.op == "_Retval" and path.startswith("_retval_"):
                name = path.removeprefix("_retval_").rsplit("_", 2)[0]
                at = self.graph.scopes[0].names.get(name)
                if at is not None and self.verdicts[at] is None:
                    cluster = next(filter(None, map(cluster_of, node.inputs)), "")
                    if cluster:
                        self._mark_behind([at], "in XLA cluster", cluster)
        for at, inputs in consumers:
            clusters = [cluster_of(path) for path in inputs]
            if not any(clusters):
                continue
            mine = self.graph.places[at].inputs
            for i, source in enumerate(mine):
                cluster = clusters[i] if len(mine) == len(clusters) else max(clusters)
                if cluster and source >= 0:
                    self._mark_behind([source], "in XLA cluster", cluster)

    def _mark_fused(self) -> None:
        heads = [
            (at, kept)
            for at, kept in enumerate(self._kept)
            if kept is not None and kept.fuses and plain_op(kept.op) != self.graph.places[at].op
        ]
        heads += [
            (at, kept)
            for at, made in self._made.items()
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
            if place.op not in PASS_THROUGH and place.op != "Const":
                self.verdicts[at] = Verdict(state, detail)
            elif state != "fused":
                self.verdicts[at] = Verdict(state, detail)
            stack.extend(i for i in place.inputs if i not in seen)
            seen.update(place.inputs)

    def _neutral(self, at: int) -> Verdict | None:
        place = self.graph.places[at]
        if place.op in PASS_THROUGH:
            return Verdict("no-op")
        if place.op in _NEUTRAL and place.scope.space in self.known:
            varying = {i for i in place.inputs if not self._is_constant(i)}
            if len(varying) == 1 and self._consumed_elsewhere(at):
                return Verdict("no-op")
        return None

    def _consumed_elsewhere(self, at: int) -> bool:
        """Whether some needed consumer is still there, and so reads something in its place."""
        stack, seen = [at], {at}
        while stack:
            current = stack.pop()
            if self._is_fetched(current):
                return True
            for consumer in self._needers[current]:
                if self._kept[consumer] is not None or consumer in self._made:
                    kept = self._kept[consumer]
                    if kept is None or kept.op != "Const":
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

    def _is_fetched(self, at: int) -> bool:
        place = self.graph.places[at]
        return place.scope.owner < 0 and place.name in self.run.fetched

    def _from_consumers(self, at: int) -> Verdict | None:
        """What became of those that used it, where that explains it."""
        place = self.graph.places[at]
        known = place.scope.space in self.known
        needers = self._needers[at]
        fates = [(n, self.verdicts[n]) for n in needers]
        states = {fate.state if fate is not None else "unknown" for _, fate in fates}
        first = self.graph.places[needers[0]].path if needers else ""
        if place.op == "Const":
            return self._absorbed(at, states, fates, first, known)
        if not known or not needers or self._is_fetched(at):
            return Verdict("too cheap") if self.lost_cheap_ops else None
        changed = [n for n in needers if n in self._made or self._changed(n)]
        if changed:
            return Verdict("rewritten", f"with {self.graph.places[changed[0]].path}")
        if states <= {"folded", "no-op", "duplicate", "pruned", "rewritten", "fused"}:
            if states == {"duplicate"}:
                return Verdict("duplicate", f"with {first}")
            return Verdict("pruned", f"only {first} used it")
        if states <= {"lowered", "inlined", "pruned", "folded", "no-op", "branch not taken"}:
            return Verdict("pruned", f"{first} does not use it")
        if states == {"in XLA cluster"}:
            return Verdict("in XLA cluster", fates[0][1].detail if fates[0][1] else "")
        return None

    def _absorbed(
        self,
        at: int,
        states: set[str],
        fates: list[tuple[int, Verdict | None]],
        first: str,
        known: bool,
    ) -> Verdict | None:
        """A constant that is gone went where its consumers went."""
        for state in ("in XLA cluster", "fused"):
            if states == {state} and fates[0][1] is not None:
                return Verdict(state, fates[0][1].detail)
        if not known and states & {"measured"}:
            return Verdict("constant")
        if states <= {"no-op", "duplicate", "branch not taken", "pruned"} and fates:
            fate = fates[0][1]
            state = "unknown" if fate is None else fate.state
            return Verdict(state, f"with {first}" if state != "pruned" else f"only {first} used it")
        if states <= {"lowered", "inlined"}:
            return Verdict("pruned", f"{first} does not use it")
        return Verdict("folded", f"into {first}" if first else "")

    def _changed(self, at: int) -> bool:
        """Whether the optimiser put another op under this name."""
        kept = self._kept[at]
        place = self.graph.places[at]
        return (
            kept is not None
            and place.op not in _CONTROL
            and plain_op(kept.op) != place.op
            and kept.op != "Const"
        )


@dataclass(slots=True)
class Spaces:
    """What is known of the graphs that executed, per space of the user's graph.

    `nodes` are the executed nodes by path; where a graph was not kept, the names that ran stand for
    it, and the space is not in `known`. In spaces `apart` nothing of the run's record executed.
    """

    nodes: dict[int, dict[str, Kept]]
    known: set[int]
    apart: set[int]


def spaces_of(graph: OpenedGraph, run: Executed) -> Spaces:
    """Find the executed graph of every space."""
    by_space: dict[int, set[str]] = {}
    for place in graph.places:
        by_space.setdefault(place.scope.space, set()).add(place.path)
    found = Spaces({}, set(), set())
    ran = {path: Kept(rows[0].name, rows[0].op) for path, rows in run.ran.items()}
    for space, paths in by_space.items():
        nodes = best_graphs(run.graphs, paths, whole=space == 0)
        if nodes:
            found.nodes[space] = nodes
            found.known.add(space)
        elif space == 0:
            found.nodes[space] = ran
        else:
            found.nodes[space] = {path: ran[path] for path in paths & ran.keys()}
    _set_apart(graph, run, found)
    return found


def _set_apart(graph: OpenedGraph, run: Executed, found: Spaces) -> None:
    """Tell by the names that only one space has whether that space executed."""
    holders: dict[str, set[int]] = {}
    for place in graph.places:
        if place.op != "Const" and place.op not in PASS_THROUGH and not place.scope.cluster:
            kept = found.nodes[place.scope.space]
            if place.scope.space not in found.known or place.path in kept:
                holders.setdefault(place.path, set()).add(place.scope.space)
    own: dict[int, list[bool]] = {}
    for path, spaces in holders.items():
        for space in spaces:
            own.setdefault(space, [])
            if len(spaces) == 1:
                own[space].append(path in run.ran)
    for space in found.nodes:
        if space and not any(own.get(space, ())):
            shared = any(path in run.ran and space in s for path, s in holders.items())
            if own.get(space) or not shared:
                found.apart.add(space)
