"""The graph of a step with the change that a finding speaks of.

Each kind of change is a function from a step to another one; `rewritten` applies those that a
`Rewrite` asks for. A change that the graph does not allow (a cast that is the only one, rows of
which the graph fixes the number) is a `StepscopeError` that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from stepscope._messages import NodeDef
from stepscope.analysis.advice.rewrite import Again, Rewrite
from stepscope.analysis.execution.edges import input_node
from stepscope.errors import StepscopeError
from stepscope.graph.dtypes import as_dtype
from stepscope.graph.tensor_proto import make_ndarray, make_tensor_proto
from stepscope.proofs.recorded_step import FedTensor, StepGraph, closure

__all__ = ["Evaluate", "rewritten"]

Evaluate = Callable[[Sequence[str]], list[Any]]
"""What some tensors of the step as it was recorded are, for the values that it is fed."""
_MOVES_VALUES: Final = frozenset({"Transpose", "ConjugateTranspose"})
_KEEPS_VALUES: Final = frozenset({
    "CheckNumerics", "CheckNumericsV2", "Print", "DebugIdentity", "DebugIdentityV2",
    "DebugIdentityV3", "DeepCopy", "Copy", "CopyHost", "Snapshot",
})  # fmt: skip


def rewritten(step: StepGraph, change: Rewrite, evaluate: Evaluate) -> StepGraph:
    """The step with the change; what nothing needs any more is gone from it."""
    if change.unfetched:
        step = _unfetched(step, change.unfetched)
    if change.bypassed:
        step = _bypassed(step, change.bypassed)
    if change.constant:
        step = _with_constants(step, change.constant, evaluate)
    if change.cut:
        step = _cut(step, change.cut)
    if change.moved:
        step = _moved(step, change.moved)
    if change.rows > 1:
        step = _with_rows(step, change.rows)
    for again in change.again:
        step = _made_again(step, again)
    if change.threads:
        step = replace(step, threads=change.threads)
    wanted = (*step.fetches, *step.targets)
    nodes = closure(step.nodes, wanted, {fed.name for fed in step.feeds})
    return replace(step, nodes=nodes)


# -- what is run no more -----------------------------------------------------------------------


def _unfetched(step: StepGraph, gone: Collection[str]) -> StepGraph:
    """Without what is fetched of these nodes, and without them as targets and control inputs.

    A fetch is named as the node that returned it (`_retval_loss_0_0`), or by what made it.
    """
    fetches = tuple(
        name
        for name in step.fetches
        if input_node(name) not in gone and not any(_returns(node, name) for node in gone)
    )
    targets = tuple(name for name in step.targets if name not in gone)
    if not fetches and not targets:
        raise StepscopeError("nothing would be left to run: the step does nothing else")
    nodes = {
        name: _with_inputs(
            node, [text for text in node.input if text[1:] not in gone or not text.startswith("^")]
        )
        for name, node in step.nodes.items()
    }
    return replace(step, nodes=nodes, fetches=fetches, targets=targets)


def _returns(node: str, fetch: str) -> bool:
    name, _, slot = fetch.rpartition(":")
    return node.startswith(f"_retval_{name}_{slot}_")


def _bypassed(step: StepGraph, gone: Collection[str]) -> StepGraph:
    """What read these nodes reads what they read, where that is the same."""
    instead: dict[str, str] = {}
    for name in gone:
        if name not in step.nodes:
            continue
        chain, source = _chain(step.nodes, name, gone)
        if _is_identity(step.nodes, chain):
            instead[name] = source
    read = {input_node(t) for n, node in step.nodes.items() if n not in gone for t in node.input}
    read.update(map(input_node, step.fetches))
    if not any(name in read for name in instead):
        raise StepscopeError(
            "what is copied or cast is needed in that type or order: whether the program can do "
            "without, only its author knows"
        )
    nodes = {
        name: node
        if name in gone
        else _with_inputs(
            node,
            [
                text if text.startswith("^") else instead.get(input_node(text), text)
                for text in node.input
            ],
        )
        for name, node in step.nodes.items()
    }
    fetches = tuple(_tensor(instead.get(input_node(name), name)) for name in step.fetches)
    return replace(step, nodes=nodes, fetches=fetches)


def _chain(nodes: Mapping[str, Any], name: str, gone: Collection[str]) -> tuple[list[str], str]:
    """The nodes that are passed on the way up from one, and what the first of them reads."""
    chain, source = [name], str(nodes[name].input[0])
    while input_node(source) in gone and input_node(source) in nodes:
        chain.append(input_node(source))
        source = str(nodes[chain[-1]].input[0])
    return chain[::-1], source


def _is_identity(nodes: Mapping[str, Any], chain: Sequence[str]) -> bool:
    """Whether nodes one after the other give back what they began with, in type and order."""
    begins = ends = 0
    order: tuple[int, ...] | None = None
    for node in map(nodes.__getitem__, chain):
        if node.op == "Cast":
            begins, ends = begins or node.attr["SrcT"].type, node.attr["DstT"].type
        elif node.op in _MOVES_VALUES:
            turned = _constant(nodes, node.input[1])
            if turned is None or node.op == "ConjugateTranspose":
                return False
            turned = tuple(int(axis) for axis in turned)
            order = turned if order is None else tuple(order[axis] for axis in turned)
        elif node.op not in _KEEPS_VALUES:
            return False
    return begins == ends and (order is None or order == tuple(range(len(order))))


def _constant(nodes: Mapping[str, Any], source: str) -> Any:
    node = nodes.get(input_node(source))
    return None if node is None or node.op != "Const" else make_ndarray(node.attr["value"].tensor)


# -- what is worked out once -------------------------------------------------------------------


def _with_constants(step: StepGraph, kept: Collection[str], evaluate: Evaluate) -> StepGraph:
    """What these nodes give to others is constant, and what they alone were fed is fed no more."""
    inner = {name for name in kept if name in step.nodes}
    fed = {feed.name: feed for feed in step.feeds if _is_fed_by(feed, kept)}
    wanted: dict[str, None] = {}
    for name, node in step.nodes.items():
        if name in inner or name in {input_node(feed) for feed in fed}:
            continue
        wanted.update(
            {
                _tensor(text): None
                for text in node.input
                if not text.startswith("^") and (input_node(text) in inner or _tensor(text) in fed)
            }
        )
    wanted.update({name: None for name in step.fetches if input_node(name) in inner})
    nodes = dict(step.nodes)
    names: dict[str, str] = {}
    for tensor, value in zip(wanted, evaluate(list(wanted)), strict=True):
        names[tensor] = f"{tensor.replace(':', '_')}/kept"
        nodes[names[tensor]] = _const(names[tensor], np.asarray(value))
    for name, node in step.nodes.items():
        if name not in inner:
            nodes[name] = _with_inputs(
                node,
                [
                    text if text.startswith("^") else names.get(_tensor(text), text)
                    for text in node.input
                ],
            )
    return replace(
        step,
        nodes=nodes,
        feeds=tuple(feed for feed in step.feeds if feed.name not in fed),
        fetches=tuple(_tensor(names.get(name, name)) for name in step.fetches),
    )


def _is_fed_by(feed: FedTensor, args: Collection[str]) -> bool:
    name, _, slot = feed.name.rpartition(":")
    return any(arg.startswith(f"_arg_{name}_{slot}_") for arg in args)


def _const(name: str, value: Any) -> Any:
    node = NodeDef(name=name, op="Const")
    dtype = as_dtype(value.dtype)
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(make_tensor_proto(value, dtype))
    return node


# -- what runs elsewhere, or in another order --------------------------------------------------


def _cut(step: StepGraph, pairs: Collection[tuple[str, str]]) -> StepGraph:
    nodes = {
        name: _with_inputs(
            node,
            [
                text
                for text in node.input
                if not text.startswith("^") or (text[1:], name) not in pairs
            ],
        )
        for name, node in step.nodes.items()
    }
    return replace(step, nodes=nodes)


def _moved(step: StepGraph, places: Mapping[str, str]) -> StepGraph:
    nodes = dict(step.nodes)
    for name, place in places.items():
        if name in nodes:
            nodes[name] = _copy(nodes[name], device=place)
    return replace(step, nodes=nodes)


def _with_rows(step: StepGraph, times: int) -> StepGraph:
    """Fed so many times the rows; placeholders that fix their number leave it open."""
    nodes, feeds = dict(step.nodes), []
    for feed in step.feeds:
        if not feed.shape:
            feeds.append(feed)
            continue
        feeds.append(replace(feed, shape=(times * feed.shape[0], *feed.shape[1:])))
        node = nodes[input_node(feed.name)]
        dims = list(node.attr["shape"].shape.dim) if "shape" in node.attr else []
        if dims and dims[0].size >= 0:
            opened = _copy(node)
            opened.attr["shape"].shape.dim[0].size = -1
            nodes[node.name] = opened
    return replace(step, nodes=nodes, feeds=tuple(feeds))


def _made_again(step: StepGraph, again: Again) -> StepGraph:
    """A tensor is worked out a second time for those that read it late."""
    nodes = dict(step.nodes)
    names = {name: f"{name}/again" for name in again.chain}
    for name in again.chain:
        second = _copy(nodes[name], name=names[name])
        inputs = [_renamed(text, names) for text in nodes[name].input if not text.startswith("^")]
        nodes[names[name]] = _with_inputs(second, [*inputs, f"^{again.after}"])
    for reader in again.readers:
        nodes[reader] = _with_inputs(
            nodes[reader],
            [_renamed(text, {again.tensor: names[again.tensor]}) for text in nodes[reader].input],
        )
    return replace(step, nodes=nodes)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    if text.startswith("^"):
        return text
    name, colon, slot = text.partition(":")
    return f"{names.get(name, name)}{colon}{slot}"


# -- nodes -------------------------------------------------------------------------------------


def _tensor(text: str) -> str:
    """The name of a tensor in full: `loss` is `loss:0`."""
    return text if ":" in text else f"{text}:0"


def _copy(node: Any, **fields: Any) -> Any:
    found = NodeDef()
    found.CopyFrom(node)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def _with_inputs(node: Any, inputs: Iterable[str]) -> Any:
    texts = list(inputs)
    if texts == list(node.input):
        return node
    found = _copy(node)
    del found.input[:]
    found.input.extend(texts)
    return found
