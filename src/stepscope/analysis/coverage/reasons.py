"""Why a place of the user's graph has no measurement of its own, from what was executed instead.

The graph as executed is compared with the user's. What stands there under its own name was kept;
a constant of that name was folded; an op made of several took in the nodes between its name and
its inputs; of two that compute the same value one was kept; and so on. Each rule needs evidence,
and a place that none explains is unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from stepscope.analysis.coverage.absent import AbsentPlaces
from stepscope.analysis.coverage.executed import (
    Executed,
    ExecutedNode,
    Ran,
    openers_of_name,
    path_of,
    plain_op,
    sources_of_name,
)
from stepscope.analysis.coverage.fate import CONTROL, Fate, summed
from stepscope.analysis.coverage.users_graph import CALLS, OpenedGraph, Scope
from stepscope.analysis.coverage.values import producers_first

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.analysis.coverage.spaces import Spaces

_SWITCHES: Final = frozenset({"Switch", "RefSwitch", "_SwitchN", "RefSwitchN"})
_SWITCH_EXIT: Final = re.compile(r"^ConstantFoldingCtrl/.*_([01])\Z")
_PIVOTS: Final = {"pivot_t": "then", "pivot_f": "else"}


class Reasons:
    """Finds a verdict for every place.

    `ended_early`, `in_flight` (the ops that it ended in), `cut` (the end of its record is missing,
    so that what is not in it may have run all the same) and `lost_cheap_ops` come from the run;
    `fetches_known` says whether all that the run was asked for is among its fetches.
    """

    def __init__(
        self,
        graph: OpenedGraph,
        run: Executed,
        spaces: Spaces,
        *,
        ended_early: bool,
        lost_cheap_ops: bool,
        in_flight: Iterable[str] = (),
        cut: bool = False,
        fetches_known: bool = True,
    ) -> None:
        self.graph = graph
        self.run = run
        self.ended_early = ended_early
        self._cut = cut
        self.lost_cheap_ops = lost_cheap_ops
        self._in_flight = frozenset(map(path_of, in_flight))
        self._fetches_known = fetches_known
        self.spaces = spaces
        self.constants_recorded = any(
            row.op == "Const" for rows in run.ran.values() for row in rows
        )
        self.replaced: set[int] = set()
        """Places whose verdict counts what an optimiser made of them."""
        self.vanished: set[int] = set()
        """Places that were in the executed graph, and did not run."""
        count = len(graph.places)
        self.verdicts: list[Fate | None] = [None] * count
        self.added: Counter[str] = Counter()
        self.added_ns = 0
        self.kept: list[ExecutedNode | None] = [
            spaces.nodes.get(place.scope.space, {}).get(place.path) for place in graph.places
        ]
        self._timed: list[list[Ran]] = [[] for _ in range(count)]
        self.made: dict[int, list[ExecutedNode]] = {}
        self._control: dict[int, list[Ran]] = {}
        self._live_scopes: set[int] = set()

    def find(self) -> list[Fate]:
        """The verdicts, one per place."""
        self._share_out()
        self._trace_names()
        self.needed = self._find_needed()
        self._come_by = self._find_come_by()
        self._dead = self._untaken()
        self._judge_kept()
        if any(verdict is None for verdict in self.verdicts):
            AbsentPlaces(self).judge()
        self._count_helpers()
        return [verdict or Fate("unknown") for verdict in self.verdicts]

    # -- who ran ---------------------------------------------------------------------------

    def _share_out(self) -> None:
        """Give the executions to the places of that path; several places of one share them."""
        claims: dict[str, list[int]] = {}
        for at, place in enumerate(self.graph.places):
            if place.scope.cluster or place.scope.space in self.spaces.apart:
                self.kept[at] = None
            elif place.path in self.run.ran and self.kept[at] is not None:
                claims.setdefault(place.path, []).append(at)
        self._claimed = set(claims)
        for path, claimants in claims.items():
            for row in self.run.ran[path]:
                if len(claimants) == 1:
                    self._timed[claimants[0]].append(row)
                    continue
                kept = [(at, self.kept[at]) for at in claimants]
                same = [at for at, node in kept if node is not None and node.op == row.op]
                takers = self._likely(same or claimants)[: row.executions]
                executions, time = row.executions, row.total_ns
                for left, at in zip(range(len(takers), 0, -1), takers, strict=True):
                    part, spent = executions // left, time // left
                    executions, time = executions - part, time - spent
                    self._timed[at].append(Ran(row.name, row.op, part, spent))
        for at, place in enumerate(self.graph.places):
            if place.scope.space not in self.spaces.known and not self._timed[at]:
                self.kept[at] = None

    def _likely(self, claimants: list[int]) -> list[int]:
        """Those whose inputs ran too, where there are such."""
        places, ran = self.graph.places, self.run.ran
        likely = [
            at
            for at in claimants
            if all(
                i < 0 or places[i].op == "Const" or places[i].path in ran for i in places[at].inputs
            )
        ]
        return likely or claimants

    def _trace_names(self) -> None:
        """Find out where names that are not the user's come from."""
        places = self.graph.places
        # Of several places of one path, the one that did not stay is the likelier source.
        sources: dict[str, int] = {}
        for at, place in enumerate(places):
            known = sources.get(place.path)
            stayed = known is None or (self.kept[known] is not None and self.kept[at] is None)
            if stayed and place.scope.space not in self.spaces.apart:
                sources[place.path] = at
        openers = {places[at].path: at for at in self.graph.opened}
        for at, place in enumerate(places):
            if place.op in CONTROL:
                openers.setdefault(place.path, at)
        names: dict[str, ExecutedNode | None] = dict.fromkeys(
            path for path in self.run.ran if path not in self._claimed
        )
        for nodes in self.spaces.nodes.values():
            names.update((path, node) for path, node in nodes.items() if path not in sources)
        for path, node in names.items():
            rows = self.run.ran.get(path, [])
            source = next((sources[p] for p in sources_of_name(path) if p in sources), None)
            # "ConstantFoldingCtrl/" nodes stand at the exits of a conditional's switches.
            if source is not None and places[source].op not in CONTROL:
                kept = node or ExecutedNode(rows[0].name, rows[0].op)
                self.made.setdefault(source, []).append(kept)
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

    def _count_helpers(self) -> None:
        """What an optimiser made of a place, where the place's own verdict does not count it."""
        for at, made in self.made.items():
            if at not in self.replaced:
                for kept in made:
                    path = path_of(kept.name)
                    self._count_added(path, self.run.ran.get(path, ()))

    def _live(self, scope: Scope, rows: Iterable[Ran]) -> None:
        # A row of no length is a constant's, which a branch not taken may have as well.
        if id(scope) not in self._live_scopes and any(row.total_ns for row in rows):
            self._live_scopes.update(id(around) for around in scope.chain())

    def _note_pivot(self, opener: int, path: str, rows: Iterable[Ran]) -> None:
        exit = _SWITCH_EXIT.search(path)
        rest = path.removeprefix(self.graph.places[opener].path + "/").partition("/")[0]
        label = _PIVOTS.get(rest) or rest.replace("pivot_", "branch")
        if exit:
            label = ("else", "then")[int(exit.group(1))]
        for scope in self.graph.opened.get(opener, ()):
            if scope.label == label:
                self._live(scope, rows)

    # -- what was needed -------------------------------------------------------------------

    def _find_needed(self) -> bytearray:
        """The places that the run needed, as far as it is known what it was asked for."""
        executed = self._executed_places()
        return self._behind([*executed, *filter(self.is_fetched, range(len(self.graph.places)))])

    def _find_come_by(self) -> bytearray | None:
        """The places that a run which ended early was done with; None where it is not in question.

        With an executed graph, what did not run and is in that graph was not reached. Without one,
        all that is known is what the ops that ran, or were running, depend on. Of a record that is
        cut nothing is known but what stands in it.
        """
        if self._cut:
            return bytearray(len(self.graph.places))
        if not self.ended_early or 0 in self.spaces.known:
            return None
        places = self.graph.places
        running = [at for at, place in enumerate(places) if place.path in self._in_flight]
        return self._behind([*self._executed_places(), *running])

    def _executed_places(self) -> list[int]:
        return [
            at
            for at in range(len(self.graph.places))
            if self.kept[at] is not None or at in self.made or at in self._control
        ]

    def _behind(self, stack: list[int]) -> bytearray:
        """These places and all that they depend on."""
        places, fed = self.graph.places, self.run.fed
        needed = bytearray(len(places))
        while stack:
            at = stack.pop()
            if needed[at]:
                continue
            needed[at] = 1
            place = places[at]
            if place.scope.owner < 0 and place.name in fed:
                continue
            stack.extend(place.needs)
            stack.extend(place.waits)
            if place.scope.owner >= 0:
                stack.append(place.scope.owner)
            if self.kept[at] is not None or self.is_fetched(at):
                stack.extend(self.graph.results.get(at, ()))
        return needed

    def is_fetched(self, at: int) -> bool:
        """Whether the run returned the place's value."""
        place = self.graph.places[at]
        return place.scope.owner < 0 and place.name in self.run.fetched

    def _untaken(self) -> dict[int, str]:
        """The scopes that execution never entered, and how to say so."""
        found: dict[int, str] = {}
        places = self.graph.places
        waiting: dict[int, bool] = {}
        for at, place in enumerate(places):
            kept = self.kept[at]
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
            scope, kept, rows = place.scope, self.kept[at], self._timed[at]
            dead = self._dead.get(id(scope))
            if scope.owner < 0 and self._is_fed(at):
                self.verdicts[at] = summed("fed", "", rows)
            elif scope.cluster:
                self.verdicts[at] = Fate("in XLA cluster", scope.cluster)
            elif kept is None and self._come_by is not None and (late := self._not_reached(at)):
                self.verdicts[at] = late
            elif scope.space in self.spaces.apart:
                self.verdicts[at] = self._outside(scope)
            elif (
                place.op in CONTROL
                and (kept is None or kept.op not in CONTROL)
                and (kept is not None or self.needed[at])
            ):
                self.verdicts[at] = Fate("branch not taken", dead) if dead else self._opened(at)
            elif kept is None:
                if not self.needed[at]:
                    self.verdicts[at] = Fate("pruned")
                elif dead:
                    self.verdicts[at] = Fate("branch not taken", dead)
            elif kept.op == "NoOp" and place.op != "NoOp":
                self.verdicts[at] = summed("pruned", "its value is not used", rows)
            elif kept.op == "Const" and place.op != "Const":
                self.verdicts[at] = summed("folded", "", rows)
            elif rows and (place.op != "Const" or any(row.total_ns for row in rows)):
                same = plain_op(kept.op) == place.op
                self.verdicts[at] = summed("measured", "" if same else f"as {kept.op}", rows)
            elif dead:
                self.verdicts[at] = Fate("branch not taken", dead)
            elif place.op == "Const" and (rows or not self.constants_recorded):
                self.verdicts[at] = summed("constant", "", rows)
            else:
                if behind_switch is None:
                    behind_switch = self._behind_switches()
                if at in behind_switch:
                    self.verdicts[at] = Fate("branch not taken")
                elif self.ended_early:
                    self.verdicts[at] = Fate("not reached")
                elif self.lost_cheap_ops:
                    self.verdicts[at] = Fate("too cheap")
                else:
                    # The runtime folds and merges once more after the graph was written down.
                    self.kept[at] = None
                    self.vanished.add(at)

    def _not_reached(self, at: int) -> Fate | None:
        """Of a place without an execution, in a run that ended early and left no graph."""
        if self._cut:
            return Fate("unknown", "the file is cut")
        if self.graph.places[at].path in self._in_flight:
            return Fate("not reached", "the run ended in it")
        if self._come_by is None or self._come_by[at]:
            return None
        if self.needed[at]:
            return Fate("not reached")
        if self._fetches_known:
            return Fate("pruned")
        return Fate("not reached", "whether it was needed is not known")

    def _outside(self, scope: Scope) -> Fate:
        """Of a function that is executed as one, and has no row in the run's record."""
        owner = self.graph.places[scope.owner]
        if not self.needed[scope.owner]:
            return Fate("pruned", f"only {owner.path} calls it")
        dead = self._dead.get(id(owner.scope))
        if dead:
            return Fate("branch not taken", dead)
        if owner.op in CALLS and self.lost_cheap_ops:
            return Fate("too cheap")
        return Fate("inside another op", owner.path)

    def _is_fed(self, at: int) -> bool:
        place = self.graph.places[at]
        if place.name in self.run.fed:
            return True
        # A placeholder that a run needs was fed, or the run would have failed.
        return place.op == "Placeholder" and (self.run.arguments or bool(self.needed[at]))

    def _opened(self, at: int) -> Fate:
        place = self.graph.places[at]
        rows = [*self._control.get(at, ()), *self._timed[at]]
        if place.op in CALLS:
            functions = [scope.function for scope in self.graph.opened.get(at, ())]
            return summed("inlined", ", ".join(functions), rows)
        return summed("lowered", "to " + ", ".join(sorted({r.op for r in rows})), rows)

    def _behind_switches(self) -> set[int]:
        places = self.graph.places
        found = set()
        for at in producers_first(self.graph):
            sources = (*places[at].needs, *places[at].waits)
            if places[at].op in _SWITCHES or any(source in found for source in sources):
                found.add(at)
        return found
