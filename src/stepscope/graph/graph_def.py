"""GraphDef out and in: nodes with TensorFlow's op types, attributes and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope._messages import AttrValue, GraphDef, NodeDef
from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import DType, as_dtype
from stepscope.graph.functions import lowered, op_types
from stepscope.graph.registry import (
    REQUIRED,
    OpType,
    arg_dtypes,
    coverage_page,
    is_registered,
    lookup,
)
from stepscope.graph.shapes import TensorShape, as_shape
from stepscope.graph.tensor_proto import as_bytes, make_ndarray, make_tensor_proto

if TYPE_CHECKING:
    from stepscope.graph.graph import Graph
    from stepscope.graph.operation import Operation, Tensor

PRODUCER: Final = 1645
"""The graph version we write: what TensorFlow 2.15 and later accept."""


def node_def_of(op: Operation) -> Any:
    """The NodeDef of one operation."""
    node = NodeDef(name=op.name, op=op.type, device=op.device)
    node.input.extend(tensor_input_name(t) for t in op.inputs)
    node.input.extend(sorted(f"^{c.name}" for c in op.control_inputs))
    for name, value in op.attrs.items():
        kind = op.op_type.attrs[name].kind if name in op.op_type.attrs else ""
        node.attr[name].CopyFrom(encode_attr(kind, value, op.attrs))
    return node


def tensor_input_name(tensor: Tensor) -> str:
    """How a NodeDef names an input: `op`, or `op:1` for outputs other than the first."""
    index = tensor.value_index
    return tensor.op.name if index == 0 else f"{tensor.op.name}:{index}"


def graph_def_of(graph: Graph, from_version: int | None, add_shapes: bool) -> Any:
    proto = GraphDef()
    proto.versions.producer = PRODUCER
    for op in graph.get_operations()[from_version or 0 :]:
        node = node_def_of(op)
        if add_shapes:
            for t in op.values():
                node.attr["_output_shapes"].list.shape.add().CopyFrom(t.shape.as_proto())
        proto.node.append(node)
    if graph.functions:
        from stepscope.graph.function_graph import function_def, used_functions

        proto.library.function.extend(function_def(f) for f in used_functions(graph))
    return proto


def encode_attr(kind: str, value: Any, attrs: Mapping[str, Any]) -> Any:
    """An attribute's Python value as an AttrValue message."""
    if isinstance(value, AttrValue):
        return value
    attr = AttrValue()
    if kind.startswith("list(") or (not kind and isinstance(value, (list, tuple))):
        _encode_list(kind[5:-1], value, attr.list)
    elif kind == "tensor" or isinstance(value, np.ndarray):
        dtype = attrs.get("dtype")
        known = dtype if isinstance(dtype, DType) else as_dtype(value.dtype)
        attr.tensor.CopyFrom(make_tensor_proto(value, known))
    elif isinstance(value, DType):
        attr.type = value.as_datatype_enum
    elif isinstance(value, TensorShape):
        attr.shape.CopyFrom(value.as_proto())
    elif isinstance(value, bool):
        attr.b = value
    elif kind == "float" or isinstance(value, float):
        attr.f = value
    elif isinstance(value, int):
        attr.i = value
    elif isinstance(value, (str, bytes)):
        attr.s = as_bytes(value)
    else:
        raise TypeError(f"An attribute of kind {kind or '?'} cannot hold {value!r}.")
    return attr


def _encode_list(kind: str, values: Iterable[Any], target: Any) -> None:
    target.SetInParent()
    for v in values:
        if isinstance(v, DType):
            target.type.append(v.as_datatype_enum)
        elif isinstance(v, TensorShape):
            target.shape.add().CopyFrom(v.as_proto())
        elif isinstance(v, bool):
            target.b.append(v)
        elif kind == "float" or isinstance(v, float):
            target.f.append(v)
        elif isinstance(v, (int, np.integer)):
            target.i.append(int(v))
        elif isinstance(v, (str, bytes)):
            target.s.append(as_bytes(v))
        else:
            raise TypeError(f"A list attribute cannot hold {v!r}.")


def decode_attr(kind: str, attr: Any) -> Any:
    """An AttrValue message (ours, TensorFlow's or TensorBoard's) as the Python value we keep."""
    which = attr.WhichOneof("value")
    if which == "type":
        return as_dtype(attr.type)
    if which == "shape":
        return TensorShape(attr.shape)
    if which == "tensor":
        value = make_ndarray(attr.tensor)
        value.setflags(write=False)
        return value
    if which in ("b", "i", "f", "s"):
        return getattr(attr, which)
    if which == "list":
        return _decode_list(kind, attr.list)
    return AttrValue.FromString(attr.SerializeToString())


def _decode_list(kind: str, items: Any) -> list[Any]:
    if kind == "list(type)" or items.type:
        return [as_dtype(t) for t in items.type]
    if kind == "list(shape)" or items.shape:
        return [as_shape(s) for s in items.shape]
    for field in ("s", "i", "f", "b"):
        if getattr(items, field):
            return list(getattr(items, field))
    return []


def import_graph_def(
    graph_def: Any,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Any] | None:
    """Add the nodes of a GraphDef (ours, TensorFlow's or TensorBoard's) to the default graph.

    Calls of functions, and conditionals and loops that are made of functions, become the ops of
    those functions (`graph.functions`). Op types that are not supported, in functions that are
    called as well, are one UnimplementedError that lists all of them, raised before anything is
    added.
    """
    del op_dict, producer_op_list
    full_name = getattr(getattr(graph_def, "DESCRIPTOR", None), "full_name", "")
    if full_name.rpartition(".")[2] != "GraphDef":
        raise TypeError(f"graph_def must be a GraphDef message, not {type(graph_def).__name__}.")
    _refuse_unsupported(graph_def)
    graph = get_default_graph()
    _keep_functions(graph, graph_def.library)
    graph_def = lowered(graph_def)
    mapped = {_normal_input(k): v for k, v in (input_map or {}).items()}
    prefix = "import" if name is None else name
    scope = graph.name_scope(prefix if prefix else None)
    with graph._lock, scope as full_prefix:
        made = _add_nodes(graph, graph_def, mapped, full_prefix)
    unused = [k for k in mapped if k.partition(":")[0] not in {n.name for n in graph_def.node}]
    if unused:
        raise ValueError(
            f"Attempted to map inputs that were not found in graph_def: [{', '.join(unused)}]"
        )
    if return_elements is None:
        return None
    return [_returned(made, element) for element in return_elements]


def _keep_functions(graph: Graph, library: Any) -> None:
    """Functions that nodes call one by one (those of datasets) are read when they are needed."""
    from stepscope.graph.function_graph import function_of_def

    known = set(graph.functions)
    for definition in library.function:
        name = definition.signature.name
        if name not in known:
            graph.add_function(
                name, lambda d=definition: function_of_def(d, graph.outermost, library)
            )


def _refuse_unsupported(graph_def: Any) -> None:
    unsupported: dict[str, int] = {}
    for op in op_types(graph_def):
        if not is_registered(op):
            unsupported[op] = unsupported.get(op, 0) + 1
    if unsupported:
        listed = ", ".join(f"{op} (x{n})" for op, n in sorted(unsupported.items()))
        raise UnimplementedError.without_op(
            f"The embedded engine does not have {len(unsupported)} op type(s) of this graph: "
            f"{listed}. {coverage_page()} lists those it has. Register the others with "
            "stepscope.register_op, or run the graph on TensorFlow.",
        )


def _normal_input(name: str) -> str:
    return name if ":" in name or name.startswith("^") else f"{name}:0"


def _add_nodes(
    graph: Graph, graph_def: Any, mapped: Mapping[str, Any], prefix: str
) -> dict[str, Operation]:
    nodes = {node.name: node for node in graph_def.node}
    made: dict[str, Operation] = {}
    loops: list[tuple[Operation, Any]] = []
    for node in _topological(nodes):
        definition = lookup(node.op)
        attrs = _attrs_of(node, definition, prefix)
        inputs, controls = [], []
        comes_back = False
        for text in node.input:
            if text.startswith("^"):
                target = mapped.get(text)
                controls.append(target if target is not None else made[text[1:]])
                continue
            source, _, index = text.partition(":")
            key = f"{source}:{index or 0}"
            if key not in mapped and source not in made and _goes_back(node, nodes[source]):
                comes_back = True
                continue
            inputs.append(mapped[key] if key in mapped else _output(made, source, index, node))
        if comes_back:
            # Until what comes back is there, what goes in stands for it.
            inputs = [inputs[0]] * int(attrs["N"])
        _check_types(definition, attrs, inputs, node)
        made[node.name] = graph.create_op(
            node.op,
            inputs,
            attrs,
            name=f"{prefix}{node.name}/" if prefix else node.name,
            control_inputs=controls,
            device=node.device or None,
        )
        if prefix:
            graph._names_in_use.setdefault(f"{prefix}{node.name}".lower(), 1)
        if comes_back:
            loops.append((made[node.name], node))
    for op, node in loops:
        sources = [text.partition(":") for text in node.input if not text.startswith("^")]
        keys = [f"{source}:{index or 0}" for source, _, index in sources]
        op._set_inputs(
            [
                mapped[key] if key in mapped else _output(made, source, index, node)
                for key, (source, _, index) in zip(keys, sources, strict=True)
            ]
        )
    return made


def _attrs_of(node: Any, definition: OpType, prefix: str) -> dict[str, Any]:
    attrs = {
        key: decode_attr(definition.attrs[key].kind if key in definition.attrs else "", value)
        for key, value in node.attr.items()
        if key in definition.attrs or key.startswith("_")
    }
    if "_class" in attrs:
        attrs["_class"] = [
            b"loc:@" + prefix.encode() + g[5:] if g.startswith(b"loc:@") else g
            for g in attrs["_class"]
        ]
    attrs.pop("_output_shapes", None)
    if prefix and "frame_name" in attrs:
        # A loop that is imported twice is two loops.
        attrs["frame_name"] = prefix.encode() + attrs["frame_name"]
    return attrs


def _goes_back(node: Any, source: Any) -> bool:
    """Whether an edge is the way back to the beginning of a loop."""
    is_merge = node.op in ("Merge", "RefMerge")
    return is_merge and source.op in ("NextIteration", "RefNextIteration")


def _topological(nodes: Mapping[str, Any]) -> list[Any]:
    """The nodes in an order in which inputs come first; InvalidArgumentError naming a cycle."""
    order: list[Any] = []
    state: dict[str, int] = {}
    for root in nodes:
        stack = [root]
        while stack:
            name = stack[-1]
            if state.get(name) == 2:
                stack.pop()
                continue
            if state.get(name) == 1:
                state[name] = 2
                order.append(nodes[name])
                stack.pop()
                continue
            state[name] = 1
            for text in nodes[name].input:
                source = text.lstrip("^").partition(":")[0]
                if source not in nodes:
                    raise ValueError(f"Node {name!r}: unknown input node {text!r}.")
                if _goes_back(nodes[name], nodes[source]):
                    continue
                if state.get(source, 0) == 0:
                    stack.append(source)
                elif state[source] == 1:
                    way = [n for n in stack if state.get(n) == 1]
                    cycle = [source, *reversed(way[way.index(source) + 1 :]), source]
                    raise InvalidArgumentError.without_op(
                        f"The graph has a cycle with {len(cycle) - 1} nodes: "
                        f"{' -> '.join(cycle)}. Each of them waits for the one before it; only "
                        "the NextIteration of a loop may go back to its Merge.",
                    )
    return order


def _output(made: Mapping[str, Operation], source: str, index: str, node: Any) -> Tensor:
    outputs = made[source].values()
    i = int(index or 0)
    if i >= len(outputs):
        raise ValueError(
            f"Node {node.name!r}: input {source}:{i} does not exist; "
            f"{source!r} ({made[source].type}) has {len(outputs)} outputs."
        )
    return outputs[i]


def _check_types(
    definition: OpType, attrs: Mapping[str, Any], inputs: Sequence[Tensor], node: Any
) -> None:
    filled = {
        **{k: s.default for k, s in definition.attrs.items() if s.default is not REQUIRED},
        **attrs,
    }
    try:
        expected = [d for arg in definition.inputs for d in arg_dtypes(arg, filled)]
    except KeyError as missing:
        raise ValueError(
            f"Node {node.name!r} ({node.op}) lacks the attr {missing.args[0]!r}."
        ) from None
    if len(expected) != len(inputs):
        raise ValueError(
            f"Node {node.name!r} ({node.op}) has {len(inputs)} inputs; {len(expected)} expected."
        )
    for i, (want, tensor) in enumerate(zip(expected, inputs, strict=True)):
        if want.base_dtype is not tensor.dtype.base_dtype:
            raise ValueError(
                f"Input {i} of node {node.name} was passed {tensor.dtype.name} from "
                f"{tensor.name} incompatible with expected {want.name}."
            )


def _returned(made: Mapping[str, Operation], element: str) -> Any:
    name, colon, index = element.partition(":")
    if name not in made:
        raise ValueError(f"Requested return_element {element!r} not found in graph_def.")
    return made[name].values()[int(index)] if colon else made[name]
