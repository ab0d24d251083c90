"""Graphs for inference: what outputs need, without what only training needs, variables frozen.

What a program exports with these runs here and on TensorFlow, and nothing of it is to be restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from stepscope._messages import GraphDef, NodeDef
from stepscope.graph.dtypes import as_dtype, int32, int64, string
from stepscope.graph.graph import Graph
from stepscope.graph.operation import Operation
from stepscope.graph.shapes import TensorShape
from stepscope.graph.tensor_proto import make_tensor_proto
from stepscope.programs import log

__all__ = [
    "convert_variables_to_constants", "extract_sub_graph", "must_run_on_cpu",
    "remove_training_nodes", "tensor_shape_from_node_def_name",
]  # fmt: skip

_VARIABLES = frozenset({"Variable", "VariableV2", "VarHandleOp"})
_PASS_ON = frozenset({"Enter", "Identity", "RefEnter", "RefIdentity", "RefSwitch", "Switch"})
_CHANGE_VARIABLES = frozenset(
    {"Assign", "AssignAdd", "AssignSub", "Queue", "ScatterAdd", "ScatterSub", "ScatterUpdate",
     "TruncatedNormal", "Variable", "VariableV2"}
)  # fmt: skip
_ON_CPU = {"Const": "dtype", "DynamicStitch": "T", "ParallelDynamicStitch": "T", "Cast": "SrcT"}
"""Op types that have no kernel for int32 elsewhere, and the attribute that says the type."""


def _source(reference: str) -> str:
    """The node that an input comes from: `x` of `x`, `x:1` and `^x`."""
    return reference.removeprefix("^").partition(":")[0]


def _neighbours(node: Any) -> Iterator[str]:
    """The nodes of a node's groups ("loc:@..."); as its inputs, they must stay with it."""
    if "_class" in node.attr:
        for group in node.attr["_class"].list.s:
            yield group.decode().removeprefix("loc:@")


def extract_sub_graph(graph_def: Any, dest_nodes: Iterable[str]) -> Any:
    """The nodes that the named ones need, in the order they had.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default() as graph:
    ...     doubled = tf.multiply(tf.constant(2.0, name="a"), 2.0, name="doubled")
    ...     rest = tf.negative(doubled)
    >>> found = tf.graph_util.extract_sub_graph(graph.as_graph_def(), ["doubled"])
    >>> [node.name for node in found.node]
    ['a', 'doubled/y', 'doubled']
    """
    graph_def = _our_message(graph_def)
    if isinstance(dest_nodes, str):
        raise TypeError(f"dest_nodes must be a list of names, not the text {dest_nodes!r}.")
    by_name = {node.name: node for node in graph_def.node}
    waiting = list(dest_nodes)
    for name in waiting:
        # TensorFlow has an assertion here, which programs may wait for.
        if name not in by_name:
            raise AssertionError(f"{name} is not in graph")
    kept: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept.add(name)
            if name in by_name:
                node = by_name[name]
                waiting += [*map(_source, node.input), *_neighbours(node)]
    found = GraphDef(versions=graph_def.versions, library=graph_def.library)
    found.node.extend(node for node in graph_def.node if node.name in kept)
    return found


def _our_message(graph_def: Any) -> Any:
    """The same as a message of this process's classes, whoever's it was."""
    if not hasattr(graph_def, "node") or not hasattr(graph_def, "library"):
        raise TypeError(
            f"graph_def must be a GraphDef message (graph.as_graph_def()), not {graph_def!r}."
        )
    if isinstance(graph_def, GraphDef):
        return graph_def
    return GraphDef.FromString(graph_def.SerializeToString())


def convert_variables_to_constants(
    sess: Any,
    input_graph_def: Any,
    output_node_names: Sequence[str],
    variable_names_whitelist: Iterable[str] | None = None,
    variable_names_blacklist: Iterable[str] | None = None,
) -> Any:
    """The graph that the named nodes need, with the values that variables have in the session.

    Only variables in the whitelist, where there is one, and none in the blacklist become constants.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default() as graph, tf.Session() as session:
    ...     weight = tf.Variable(3.0, name="weight")
    ...     tripled = tf.multiply(weight, 5.0, name="tripled")
    ...     session.run(tf.global_variables_initializer())
    ...     frozen = tf.graph_util.convert_variables_to_constants(
    ...         session, graph.as_graph_def(), ["tripled"]
    ...     )
    >>> [node.op for node in frozen.node]
    ['Const', 'Identity', 'Const', 'Mul']
    """
    used = extract_sub_graph(input_graph_def, output_node_names)
    wanted = None if variable_names_whitelist is None else set(variable_names_whitelist)
    unwanted = set(variable_names_blacklist or ())
    names = [
        node.name
        for node in used.node
        if node.op in _VARIABLES
        and (wanted is None or node.name in wanted)
        and node.name not in unwanted
    ]
    values = dict(zip(names, _values(sess, used, names), strict=True))
    log.info("Froze %d variables.", len(values))
    frozen = GraphDef(versions=used.versions, library=used.library)
    by_name = {node.name: node for node in used.node}
    for node in used.node:
        frozen.node.extend(_frozen(node, by_name, values))
    log.info("Converted %d variables to const ops.", len(values))
    return frozen


def _values(session: Any, graph_def: Any, names: Sequence[str]) -> Sequence[Any]:
    if not names:
        return []
    readers = {
        _handle_of(node, {n.name: n for n in graph_def.node}): node.name
        for node in graph_def.node
        if node.op == "ReadVariableOp"
    }
    kinds = {node.name: node.op for node in graph_def.node}
    fetched = []
    for name in names:
        if kinds[name] != "VarHandleOp":
            fetched.append(f"{name}:0")
        else:
            fetched.append(f"{readers.get(name) or _reader(session, name)}:0")
    found: Sequence[Any] = session.run(fetched)
    return found


def _reader(session: Any, name: str) -> str:
    """A node that reads a variable which the outputs only gather rows of."""
    for consumer in session.graph.get_operation_by_name(name).outputs[0].consumers():
        if consumer.type == "ReadVariableOp":
            found: str = consumer.name
            return found
    raise ValueError(f"Variable {name!r} cannot be frozen: no node of the graph reads it.")


def _handle_of(node: Any, by_name: dict[str, Any]) -> str:
    """The variable whose handle a node gets, through nodes that only pass it on."""
    while node.op != "VarHandleOp":
        before = by_name.get(_source(node.input[0])) if node.input else None
        if before is None or (before.op not in _PASS_ON and before.op != "VarHandleOp"):
            return ""
        node = before
    name: str = node.name
    return name


def _frozen(node: Any, by_name: dict[str, Any], values: dict[str, Any]) -> list[Any]:
    """The node, or what stands for it where it is a frozen variable, or takes one's handle."""
    if node.name in values:
        dtype = as_dtype(node.attr["dtype"].type)
        return [_constant(node.name, values[node.name], dtype, node.device)]
    made = NodeDef.FromString(node.SerializeToString())
    takes_handle = node.op in ("ReadVariableOp", "ResourceGather", *_PASS_ON)
    variable = _handle_of(node, by_name) if takes_handle else ""
    if variable not in values:
        return [made]
    held = by_name[variable].attr["dtype"].type
    if node.op == "ReadVariableOp":
        made.op = "Identity"
        _set_types(made, T=held)
        return [made]
    if node.op != "ResourceGather":
        made.attr["T"].type = held
        return [made]
    axis = _constant(f"{node.name}/axis", np.int64(0), int64, node.device)
    made.op = "GatherV2"
    made.input[:] = [*node.input[:2], axis.name, *node.input[2:]]
    _set_types(
        made, Tparams=held, Tindices=node.attr["Tindices"].type, Taxis=int64.as_datatype_enum
    )
    return [axis, made]


def _constant(name: str, value: Any, dtype: Any, device: str) -> Any:
    node = NodeDef(name=name, op="Const", device=device)
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(make_tensor_proto(np.asarray(value), dtype))
    return node


def _set_types(node: Any, **types: int) -> None:
    """Have these attributes alone, and those of groups."""
    for name in [n for n in node.attr if n != "_class"]:
        del node.attr[name]
    for name, kind in types.items():
        node.attr[name].type = kind


def remove_training_nodes(input_graph: Any, protected_nodes: Iterable[str] | None = None) -> Any:
    """The graph without checks of numbers, and without nodes that only pass a tensor on.

    Nodes in `protected_nodes` stay, as do those that are part of control edges and groups.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default() as graph:
    ...     x = tf.identity(tf.constant(2.0, name="x"), name="same")
    ...     y = tf.square(x, name="y")
    >>> [(n.name, *n.input) for n in tf.graph_util.remove_training_nodes(graph.as_graph_def()).node]
    [('x',), ('y', 'x')]
    """
    protected = set(protected_nodes or ())
    checks = {
        node.name: node.input[0]
        for node in input_graph.node
        if node.op == "CheckNumerics" and node.name not in protected
    }
    nodes = []
    for node in input_graph.node:
        if node.name not in checks:
            copy = NodeDef.FromString(node.SerializeToString())
            copy.input[:] = [
                i for i in node.input if i.removeprefix("^") not in checks or i[0] != "^"
            ]
            nodes.append(copy)
    tied = {name for node in nodes for name in _neighbours(node)}
    for node in nodes:
        after = [i.removeprefix("^") for i in node.input if i.startswith("^")]
        tied.update(after)
        if after:
            tied.add(node.name)
    passed = checks | {
        node.name: node.input[0]
        for node in nodes
        if node.op in ("Identity", "StopGradient") and node.name not in protected | tied
    }
    result = GraphDef()
    for node in nodes:
        if node.name not in passed:
            for place, reference in enumerate(node.input):
                # TensorFlow leaves out a check's output, and the node with an input too few.
                while reference in passed:
                    reference = passed[reference]
                node.input[place] = reference
            result.node.add().CopyFrom(node)
    return result


def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Whether TensorFlow has no kernel for this node but the CPU's.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     tf.graph_util.must_run_on_cpu(tf.constant("text").op)
    True
    """
    definition = node.node_def if isinstance(node, Operation) else node
    if pin_variables_on_cpu and definition.op in _CHANGE_VARIABLES:
        return True
    if definition.op not in _ON_CPU:
        return False
    kind = as_dtype(definition.attr[_ON_CPU[definition.op]].type)
    return kind is int32 or (definition.op == "Const" and kind is string)


def tensor_shape_from_node_def_name(graph: Graph, input_name: str) -> TensorShape:
    """The static shape of a tensor, named as the input of a node names it: `x` or `x:0`."""
    name = input_name if ":" in input_name else f"{input_name}:0"
    return graph.get_tensor_by_name(name).shape
