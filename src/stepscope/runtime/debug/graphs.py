"""The executed graphs as a debugger shows them: watched tensors go through copies and debug nodes.

The engine watches tensors without adding nodes. Readers of dumps expect the nodes TensorFlow adds
(`__copy_<node>_<slot>`, `__dbg_<node>:<slot>_<n>_<debug op>`), so they are drawn into the graphs
that go with a dump. A fed tensor that is watched by its own name gets a node of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope._messages import NodeDef
from stepscope.graph.graph_def import encode_attr
from stepscope.runtime.debug.watches import Watch, Watched
from stepscope.runtime.plan.exec_graph import ExecGraph


def debug_graphs(graph: ExecGraph, watches: Sequence[Watch]) -> dict[str, Any]:
    """A GraphDef per device, with the nodes of the watches."""
    by_tensor: dict[Watched, list[Watch]] = {}
    for watch in watches:
        by_tensor.setdefault(watch.tensor, []).append(watch)
    graphs = dict(zip(sorted(graph.devices), graph.partition_graphs(), strict=True))
    for device, partition in graphs.items():
        consumers = _Consumers(partition)
        names = {node.name for node in partition.node}
        for tensor, group in by_tensor.items():
            if tensor.source.device != device:
                continue
            if tensor.node not in names:
                names.add(tensor.node)
                partition.node.append(_fed_node(graph, tensor))
            copy, *debug = _debug_nodes(tensor, group)
            consumers.redirect(tensor, copy.name, [d.name for d in debug])
            partition.node.extend([copy, *debug])
    return graphs


class _Consumers:
    """Who reads which port of a partition."""

    def __init__(self, partition: Any) -> None:
        self._readers: dict[str, list[Any]] = {}
        for node in partition.node:
            for name in dict.fromkeys(node.input):
                self._readers.setdefault(name, []).append(node)

    def redirect(self, tensor: Watched, copy: str, debug: Sequence[str]) -> None:
        """Let the readers of a tensor read its copy, after its debug nodes."""
        port = _port(tensor.source.name, tensor.source_slot)
        for node in self._readers.get(port, ()):
            if not tensor.dtype._is_ref_dtype:
                node.input[:] = [copy if name == port else name for name in node.input]
            node.input.extend(f"^{name}" for name in debug)


def _port(node: str, slot: int) -> str:
    return node if slot == 0 else f"{node}:{slot}"


def _fed_node(graph: ExecGraph, tensor: Watched) -> Any:
    op = next(t.op for t in graph.args if t.op.name == tensor.node)
    node = NodeDef(name=op.name, op=op.type, device=tensor.source.device)
    for key, value in op.node_def.attr.items():
        node.attr[key].CopyFrom(value)
    return node


def _debug_nodes(tensor: Watched, watches: Sequence[Watch]) -> list[Any]:
    dtype = tensor.dtype.base_dtype
    copy = _node(
        f"__copy_{tensor.node}_{tensor.slot}",
        "Copy" if dtype.is_fixed_size else "CopyHost",
        _port(tensor.node, tensor.slot),
        T=dtype,
        tensor_name="",
        debug_ops_spec=[
            f"{w.debug_op.name};{target.url};{int(w.debug_op.attrs['gated_grpc'])}"
            for w in watches
            for target in w.targets
        ],
    )
    nodes = [copy]
    for i, watch in enumerate(watches):
        op = watch.debug_op
        nodes.append(
            _node(
                f"__dbg_{tensor.name}_{i}_{op.name}",
                op.name,
                copy.name,
                T=dtype,
                tensor_name=tensor.name,
                device_name=tensor.source.device,
                debug_urls=[target.url for target in watch.targets],
                **op.attrs,
            )
        )
    return nodes


def _node(name: str, op: str, source: str, **attrs: Any) -> Any:
    node = NodeDef(name=name, op=op, input=[source])
    for key, value in attrs.items():
        node.attr[key].CopyFrom(encode_attr("", value, attrs))
    return node
