"""What a run executed, by names that can be compared with those of the user's graph.

Lowering gives the bodies of conditionals and loops a number (`loop/body/_9/add`), inlining the
name of the call (`call/add`). A *path* is such a name without the numbers: `loop/body/add`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from stepscope.metadata.executed_graphs import executed_graphs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepscope.metadata import OpColumns, RunMetadata

_NUMBERED: Final = re.compile(r"/(then|else|cond|body|branch\d+)/_\d+(?=/)")
_FED: Final = re.compile(r"_arg_(.+)_\d+_\d+\Z")
_FETCHED: Final = re.compile(r"_retval_(.+)_\d+_\d+\Z")
_RETURNED: Final = re.compile(r"([a-z0-9_]+?)(?:_retval)?_RetVal\Z")
_NOT_PLAIN: Final = re.compile(r"[^a-z0-9]")
_CLUSTER: Final = re.compile(
    r"(cluster_\d+)(?:_\d+)?/(?:xla_|merge_oidx|stateful_partitioned_call)"
)
_OPTIMIZER: Final = re.compile(
    r"(ArithmeticOptimizer|ConstantFolding|ConstantFoldingCtrl|Remapper|RemapperOptimizer|"
    r"LoopOptimizer|DependencyOptimizer|ShapeOptimizer|ScopedAllocatorOptimizer|"
    r"PinToHostOptimizer|AutoMixedPrecision|GenericLayoutOptimizer)/"
)
_RUNTIME_FOLDED: Final = re.compile(r"/_\d+__cf__\d+\Z")
_COMPOSED: Final = "/unary_ops_composition"
_CALL_BOUNDARY: Final = "Func/"
_LEADING_RULE: Final = re.compile(r"[A-Za-z0-9]+_")
_TRAILING_WORD: Final = re.compile(r"[-_/][^-_/]*\Z")
_MKL: Final = re.compile(r"_Mkl(?:Native)?")
_PLUMBING: Final = frozenset(
    {"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "_Send", "_Recv", "_HostSend", "_HostRecv"}
)


def path_of(name: str) -> str:
    """The name of an executed node without the numbers that lowering put into it."""
    return _NUMBERED.sub(r"/\1", name) if "/_" in name else name


def plain_op(op: str) -> str:
    """The op type without the prefix that oneDNN's kernels carry."""
    return _MKL.sub("", op) if op.startswith("_Mkl") else op


class Ran(NamedTuple):
    """The executions of a name under one op type."""

    name: str
    op: str
    executions: int
    total_ns: int


@dataclass(slots=True)
class ExecutedNode:
    """A node of a graph as it was executed."""

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    """The paths of its data inputs."""
    fused_ops: bool = False

    @property
    def fuses(self) -> bool:
        """Whether its kernel does the work of several ops."""
        op = plain_op(self.op)
        return (
            self.fused_ops
            or op.startswith(("_Fused", "Fused_"))
            or (op != self.op and op.startswith("Fused") and op != "FusedBatchNormV3")
            or op == "_UnaryOpsComposition"
        )


@dataclass(slots=True)
class Executed:
    """What ran, and the graphs it ran in."""

    ran: dict[str, list[Ran]]
    """By path; a path may have run under several op types or numbered names."""
    graphs: list[dict[str, ExecutedNode]] = field(default_factory=list)
    """The executed graphs by path, as far as they were kept."""
    fed: set[str] = field(default_factory=set)
    fetched: dict[str, str] = field(default_factory=dict)
    """Nodes of the user's graph whose values the run returned, and the path read for each."""
    arguments: bool = False
    """Whether the graph was a function's, whose placeholders are its arguments."""

    def name_results(self, nodes: Iterable[str]) -> None:
        """Find the user's nodes behind a function's results, which have names in lower case."""
        spelled: dict[str, str] = {}
        for name in nodes:
            spelled.setdefault(_NOT_PLAIN.sub("_", name.lower()), name)
        for graph in (*self.graphs, {path: ExecutedNode(path, "_Retval") for path in self.ran}):
            for path, node in graph.items():
                match = _RETURNED.match(path)
                if match and node.op == "_Retval" and match.group(1) in spelled:
                    name = spelled[match.group(1)]
                    self.fetched[name] = self.fetched.get(name) or "".join(node.inputs[:1])


def executed(metadata: RunMetadata) -> Executed:
    """What `metadata` tells of the execution."""
    found = Executed(_ran(metadata.ops))
    for graph in executed_graphs(metadata):
        found.graphs.append(_kept(graph))
    names = set(found.ran)
    for kept in found.graphs:
        names.update(kept)
        found.arguments |= any(
            node.op in ("_Arg", "_DeviceArg") and not path.startswith("_arg_")
            for path, node in kept.items()
        )
    for name in names:
        if name.startswith("_arg_") and (match := _FED.match(name)):
            found.fed.add(match.group(1))
        elif name.startswith("_retval_") and (match := _FETCHED.match(name)):
            node = next((graph[name] for graph in found.graphs if name in graph), None)
            found.fetched[match.group(1)] = node.inputs[0] if node and node.inputs else ""
    found.arguments |= metadata.engine in ("tensorflow function", "tensorflow eager")
    return found


def _ran(ops: OpColumns) -> dict[str, list[Ran]]:
    """Executions by path."""
    found: dict[str, list[Ran]] = {}
    if not len(ops):
        return found
    names, types = ops.names, ops.ops
    keys = names.codes.astype(np.int64) * len(types.table) + types.codes
    distinct, where = np.unique(keys, return_inverse=True)
    total = np.zeros(len(distinct), np.int64)
    np.add.at(total, where, ops.end_ns - ops.start_ns)
    calls = np.bincount(where, minlength=len(distinct))
    rows = zip(distinct.tolist(), calls.tolist(), total.tolist(), strict=True)
    for key, executions, total_ns in rows:
        name_code, type_code = divmod(key, len(types.table))
        name = names.table[name_code]
        row = Ran(name, types.table[type_code], executions, total_ns)
        found.setdefault(path_of(name), []).append(row)
    return found


def _kept(graph: Any) -> dict[str, ExecutedNode]:
    found: dict[str, ExecutedNode] = {}
    for node in graph.node:
        op = node.op
        inputs = tuple(
            path_of(text.partition(":")[0]) for text in node.input if not text.startswith("^")
        )
        fused = op.startswith("_") and "fused_ops" in node.attr
        found[path_of(node.name)] = ExecutedNode(
            node.name, op, inputs, fused and bool(node.attr["fused_ops"].list.s)
        )
    return found


def best_graphs(
    graphs: list[dict[str, ExecutedNode]], names: set[str], *, whole: bool
) -> list[dict[str, ExecutedNode]]:
    """Those of the graphs that are about these names; `whole`: the names of the graph itself.

    Metadata of functions may hold graphs of unrelated functions as well. The graph with most of
    the names counts, and those that add names it has not: a graph placed on several devices has
    one per device.
    """
    ranked: list[tuple[int, int, set[str], dict[str, ExecutedNode]]] = []
    of_session = [g for g in graphs if any(p.startswith(("_arg_", "_retval_")) for p in g)]
    if whole and (of_session or len(graphs) == 1):
        return graphs
    for graph in graphs:
        own = {path for path, node in graph.items() if node.op not in _PLUMBING}
        shared = own & names
        about = 4 * len(shared) >= min(len(own), 8) if whole else 2 * len(shared) >= len(own)
        if shared and about:
            ranked.append((len(shared), len(ranked), shared, graph))
    ranked.sort(key=lambda entry: (-entry[0], entry[1]))
    chosen: list[dict[str, ExecutedNode]] = []
    seen: set[str] = set()
    for _, _, shared, graph in ranked:
        if not seen & shared:
            seen |= shared
            chosen.append(graph)
    return chosen


def cluster_of(path: str) -> str:
    """The XLA cluster that an executed node belongs to, or ""."""
    match = _CLUSTER.match(path) if "cluster_" in path else None
    return match.group(1) if match else ""


def sources_of_name(path: str) -> Iterator[str]:
    """Paths of the user's graph that an optimiser may have made this name from, likeliest first."""
    if path.endswith(_COMPOSED):
        yield path.removesuffix(_COMPOSED)
        return
    if match := _RUNTIME_FOLDED.search(path):
        yield path[: match.start()]
        return
    marks = list(_OPTIMIZER.finditer(path))
    if not marks:
        return
    scope, rest = path[: marks[-1].start()], path[marks[-1].end() :]
    scope = _OPTIMIZER.sub("", scope)
    heads = [rest]
    while len(heads) < 5 and (rule := _LEADING_RULE.match(heads[-1])):
        heads.append(heads[-1][rule.end() :])
    for head in heads:
        yield scope + head
    for head in heads[:3]:
        for _ in range(4):
            tail = _TRAILING_WORD.search(head)
            if tail is None or not tail.start():
                break
            head = head[: tail.start()]
            yield scope + head


def by_folding(path: str) -> bool:
    """Whether constant folding made this name."""
    return "ConstantFolding/" in path or _RUNTIME_FOLDED.search(path) is not None


def openers_of_name(path: str) -> Iterator[str]:
    """Paths of conditionals, loops and calls a control node may belong to, longest first."""
    path = path.removeprefix("ConstantFoldingCtrl/").removeprefix(_CALL_BOUNDARY)
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
