"""The user's graph with its functions opened at every place they are called from.

One node of a function is as many *places* as there are calls that lead to it. A place knows the
path under which it would be executed if the call is inlined or the conditional or loop lowered
(`call/add`, `cond/then/mul`, `loop/body/add`), its producers across the boundaries of inlined
calls, and what it needs. Functions that stay functions (a call that is not inlined, a dataset's
map function) execute under the bare names of their nodes, in a space of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

CALLS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
CONDITIONALS: Final = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
LOOPS: Final = frozenset({"While", "StatelessWhile"})
XLA_LAUNCH: Final = "XlaLaunch"
"""The op type of what XLA compiled as a whole."""
_LABELS: Final = {"then_branch": "then", "else_branch": "else", "cond": "cond", "body": "body"}
_MOST_PLACES: Final = 1_000_000

NOWHERE: Final = -1
"""The producer of an input that comes from outside of what is known."""


@dataclass(slots=True, eq=False)
class Scope:
    """The user's graph, or one of its functions as called from one place."""

    kind: str
    """"graph", "call", "branch", "loop" or "separate"."""
    label: str
    """"then", "else", "branch0", "cond", "body", or ""."""
    prefix: str
    owner: int
    parent: Scope | None
    function: str
    cluster: str
    """The op whose function XLA compiles as a whole, if this is inside of one, or ""."""
    space: int
    """Scopes of one space execute in one graph."""
    names: dict[str, int] = field(default_factory=dict)
    arguments: dict[str, tuple[Scope, str]] = field(default_factory=dict)
    """Arguments whose value is that of an input of the owner, as the parent's text."""
    results: list[str] = field(default_factory=list)
    kept_results: list[str] = field(default_factory=list)

    @property
    def frame(self) -> Scope:
        """The nearest scope that is not just a call: optimisers merge nodes only within one."""
        scope = self
        while scope.kind == "call" and scope.parent is not None:
            scope = scope.parent
        return scope

    def chain(self) -> list[Scope]:
        """This scope and those around it."""
        found, scope = [self], self.parent
        while scope is not None:
            found.append(scope)
            scope = scope.parent
        return found


class Place:
    """A node of the user's graph, or of a function as called from one place."""

    __slots__ = ("inputs", "name", "needs", "node", "op", "path", "scope", "slots", "waits")

    def __init__(self, node: Any, scope: Scope) -> None:
        self.node = node
        self.name: str = node.name
        self.op: str = node.op
        self.scope = scope
        self.path = scope.prefix + self.name
        self.inputs: list[int] = []
        self.slots: list[str] = []
        self.needs: list[int] = []
        """What must have a value for it: producers, calls in between, results of bodies."""
        self.waits: list[int] = []
        """What must only have run before it."""


class OpenedGraph:
    """Places and scopes; `opened` are the scopes each owner's functions were opened in."""

    def __init__(
        self, graph: Any, survives: Callable[[str, str, int], bool], cluster: str = ""
    ) -> None:
        """`survives(path, op, space)`: whether a call or conditional is executed as such.

        `cluster` is what XLA made of the graph, where it compiled it as a whole.
        """
        self.places: list[Place] = []
        self.scopes: list[Scope] = []
        self.opened: dict[int, list[Scope]] = {}
        self.library = {f.signature.name: f for f in graph.library.function}
        self.uncalled: list[str] = []
        self.results: dict[int, list[int]] = {}
        """What makes the results of each inlined call."""
        self._survives = survives
        self._spaces = 1
        top = Scope("graph", "", "", NOWHERE, None, "", cluster, 0)
        self._fill(top, graph.node)
        called = self._open_all() if self.library else set()
        self.uncalled = [name for name in self.library if name not in called]
        self._link()

    def _fill(self, scope: Scope, nodes: Any) -> None:
        self.scopes.append(scope)
        places, names = self.places, scope.names
        for node in nodes:
            names[node.name] = len(places)
            places.append(Place(node, scope))

    # -- opening functions -----------------------------------------------------------------

    def _open_all(self) -> set[str]:
        called: set[str] = set()
        at = 0
        while at < len(self.places):
            place = self.places[at]
            for label, name in _functions_of(place.node, self.library):
                recursive = any(scope.function == name for scope in place.scope.chain())
                called.add(name)
                if not recursive and len(self.places) < _MOST_PLACES:
                    self._open(at, place, label, name)
            at += 1
        return called

    def _open(self, at: int, place: Place, label: str, name: str) -> None:
        function, around = self.library[name], place.scope
        cluster = around.cluster
        if not cluster and (_is_set(function.attr, "_XlaMustCompile") or _compiled(place.node)):
            cluster = place.path
        kind = _kind(place.op, name)
        if cluster or kind == "separate" or self._survives(place.path, place.op, around.space):
            space, prefix, kind = self._spaces, "", "separate"
            self._spaces += 1
        else:
            space = around.space
            prefix = f"{place.path}/{label}/" if label else f"{place.path}/"
        scope = Scope(kind, label, prefix, at, around, name, cluster, space)
        results = [function.ret[out.name] for out in function.signature.output_arg]
        scope.results = results
        scope.kept_results = list(function.control_ret.values())
        inputs = [text for text in place.node.input if not text.startswith("^")]
        arguments = [argument.name for argument in function.signature.input_arg]
        if kind == "branch":
            inputs = inputs[1:]
        if kind in ("call", "branch"):
            scope.arguments = {a: (around, i) for a, i in zip(arguments, inputs, strict=False)}
        elif kind == "loop":
            body = self.library.get(place.node.attr["body"].func.name)
            same = _unchanged(body) if body is not None else []
            scope.arguments = {
                a: (around, i) for a, i, kept in zip(arguments, inputs, same, strict=False) if kept
            }
        self.opened.setdefault(at, []).append(scope)
        self._fill(scope, function.node_def)

    # -- producers and needs ---------------------------------------------------------------

    def _link(self) -> None:
        inlined = {at: scopes[0] for at, scopes in self.opened.items() if scopes[0].kind == "call"}
        for at, place in enumerate(self.places):
            names, needs = place.scope.names, place.needs
            inputs, slots = place.inputs, place.slots
            passes = at in inlined
            for text in place.node.input:
                if text[0] == "^":
                    source = names.get(text[1:])
                    if source is not None:
                        place.waits.append(source)
                    continue
                name, _, slot = text.partition(":")
                source = names.get(name)
                if source is None or source in inlined:
                    source, slot = self._producer(place.scope, text, inlined, needs)
                inputs.append(source)
                slots.append(slot)
                # What an inlined call is given is needed only if its body uses it.
                if source >= 0 and not passes:
                    needs.append(source)
        for at, scopes in self.opened.items():
            for scope in scopes:
                owner = self.places[at]
                self._add_producers(scope, scope.kept_results, inlined, owner.waits)
                needs = self.results.setdefault(at, []) if at in inlined else owner.needs
                self._add_producers(scope, scope.results, inlined, needs)

    def _add_producers(
        self, scope: Scope, texts: list[str], inlined: dict[int, Scope], to: list[int]
    ) -> None:
        for text in texts:
            source, _ = self._producer(scope, text, inlined, to)
            if source >= 0:
                to.append(source)

    def _producer(
        self, scope: Scope, text: str, inlined: dict[int, Scope], passed: list[int]
    ) -> tuple[int, str]:
        """The place that makes a value, through inlined calls, which are noted in `passed`."""
        for _ in range(10_000):
            name, _, slot = text.partition(":")
            source = scope.names.get(name)
            if source is None:
                bound = scope.arguments.get(name)
                if bound is None:
                    return NOWHERE, text
                scope, text = bound
                continue
            body = inlined.get(source)
            if body is None:
                return source, slot
            passed.append(source)
            index = int(slot.rpartition(":")[2] or 0)
            if index >= len(body.results):
                return source, slot
            scope, text = body, body.results[index]
        return NOWHERE, text


def _functions_of(node: Any, library: dict[str, Any]) -> list[tuple[str, str]]:
    """The functions a node holds, each with the label of its scope."""
    if node.op in library:
        return [("", node.op)]
    found = []
    for key, value in node.attr.items():
        which = value.WhichOneof("value")
        if which == "func":
            if value.func.name in library and not key.startswith("_"):
                found.append((_LABELS.get(key, ""), value.func.name))
        elif which == "list" and value.list.func:
            found += [
                (f"branch{i}", func.name)
                for i, func in enumerate(value.list.func)
                if func.name in library
            ]
    return sorted(found)


def _kind(op: str, function: str) -> str:
    if op in CALLS or op == function:
        return "call"
    if op in CONDITIONALS:
        return "branch"
    return "loop" if op in LOOPS else "separate"


def _is_set(attributes: Any, key: str) -> bool:
    return key in attributes and bool(attributes[key].b)


def _compiled(node: Any) -> bool:
    return _is_set(node.attr, "_XlaMustCompile") or node.op == XLA_LAUNCH


def _unchanged(body: Any) -> list[bool]:
    """Which variables of a loop its body hands on as they came."""
    results = [body.ret[out.name] for out in body.signature.output_arg]
    arguments = [argument.name for argument in body.signature.input_arg]
    return [a == r for a, r in zip(arguments, results, strict=False)]
