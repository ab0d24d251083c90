"""From a graph and what is fed and fetched to the nodes that execute: pruned, placed, partitioned.

An `ExecGraph` is what TensorFlow calls the executor graphs of a run: fed tensors became `_Arg`
nodes, fetched ones end in `_Retval` nodes, and every edge between devices became a `_Send` and a
`_Recv`. It depends on nothing but the graph, the feeds, the fetches and the devices, so it is made
once per such key; what depends on the fed shapes is added by `stepscope.runtime.plan.plan`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stepscope._messages import GraphDef, NodeDef
from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.graph import DType, Operation, Tensor
from stepscope.graph.dtypes import float32
from stepscope.graph.graph_def import PRODUCER, encode_attr
from stepscope.metadata import Placement
from stepscope.ops.flow.switches import ENTERS, FLOW, MERGES, NEXT_ITERATIONS
from stepscope.runtime.execute.rendezvous import rendezvous_key
from stepscope.runtime.plan.placement import Placer

Port = tuple["ExecNode", int]
"""One output of a node."""


class ExecNode:
    """One node as executed. `op` is None for the nodes the engine added itself."""

    __slots__ = (
        "attrs", "controls", "device", "index", "inputs", "name", "op", "op_type", "output_dtypes",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        op_type: str,
        device: str,
        output_dtypes: Sequence[DType],
        op: Operation | None = None,
        attrs: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.op_type = op_type
        self.device = device
        self.output_dtypes = tuple(output_dtypes)
        self.op = op
        self.attrs = attrs or {}
        self.inputs: list[Port] = []
        self.controls: list[ExecNode] = []
        self.index = -1

    @property
    def label(self) -> str:
        """What a timeline shows: `name = Op(inputs)`, as TensorFlow writes it."""
        names = [_port_name(p) for p in self.inputs] + [f"^{c.name}" for c in self._real_controls()]
        return f"{self.name} = {self.op_type}({', '.join(names)})"

    def _real_controls(self) -> list[ExecNode]:
        return [] if self.op_type == "_Recv" else self.controls

    def node_def(self) -> Any:
        """The node as it stands in a partition graph."""
        node = NodeDef(name=self.name, op=self.op_type, device=self.device)
        node.input.extend(_port_name(p) for p in self.inputs)
        node.input.extend(f"^{c.name}" for c in self._real_controls())
        if self.op is not None:
            for key, value in self.op.node_def.attr.items():
                if key != "_class":
                    node.attr[key].CopyFrom(value)
        for key, value in self.attrs.items():
            node.attr[key].CopyFrom(encode_attr("", value, self.attrs))
        return node

    def __repr__(self) -> str:
        return f"<ExecNode {self.label} on {self.device}>"


def _port_name(port: Port) -> str:
    node, slot = port
    return node.name if slot == 0 else f"{node.name}:{slot}"


class ExecGraph:
    """The nodes of one kind of run, in an order in which inputs come first."""

    def __init__(
        self,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        placer: Placer,
        done: frozenset[Operation] = frozenset(),
    ) -> None:
        self._done = done
        self.feeds = tuple(feeds)
        self.fetches = tuple(fetches)
        self._placer = placer
        self._fed = set(feeds)
        ops = self._needed([*(t.op for t in fetches if t not in self._fed), *targets])
        _refuse_collectives(ops)
        self.placements: dict[Operation, Placement] = placer.place(ops)
        self._by_op: dict[Operation, ExecNode] = {}
        self.args = self._make_args()
        self._copy_ops(ops)
        self.retvals = self._make_retvals()
        self.has_flow = any(
            n.op_type in FLOW or n.op_type.startswith(("TensorArray", "Stack"))
            for n in self._by_op.values()
        )
        """Whether nodes may execute any number of times, or keep tensors while the run goes on."""
        if self.has_flow:
            self._close_loops_in_place()
        nodes = [*self.args.values(), *self._by_op.values(), *self.retvals]
        self.sends: dict[ExecNode, ExecNode] = {}
        """Each receive's send."""
        self.nodes: list[ExecNode] = _ordered([*nodes, *self._partition(nodes)], self.retvals)
        for i, node in enumerate(self.nodes):
            node.index = i
        self.devices = list(dict.fromkeys(n.device for n in self.nodes)) or [placer.client]

    # -- pruning -------------------------------------------------------------------------------

    def _needed(self, roots: Sequence[Operation]) -> list[Operation]:
        seen: dict[Operation, None] = {}
        stack = list(reversed(roots))
        while stack:
            op = stack.pop()
            if op in seen:
                continue
            seen[op] = None
            stack.extend(t.op for t in op.inputs if t not in self._fed)
            stack.extend(self._controls(op))
        return list(seen)

    def _controls(self, op: Operation) -> list[Operation]:
        """What the op waits for; what is fed or was done before is there from the beginning."""
        return [
            c
            for c in op.control_inputs
            if c not in self._done and (c.type != "Placeholder" or c.values()[0] not in self._fed)
        ]

    # -- nodes ---------------------------------------------------------------------------------

    def _make_args(self) -> dict[Tensor, ExecNode]:
        args = {}
        for i, tensor in enumerate(sorted(self.feeds, key=lambda t: t.name)):
            name = f"_arg_{tensor.op.name}_{tensor.value_index}_{i}"
            dtype = tensor.dtype.base_dtype
            node = ExecNode(
                name, "_Arg", self._placer.client, [dtype], attrs={"T": dtype, "index": i}
            )
            args[tensor] = node
        return args

    def _copy_ops(self, ops: Sequence[Operation]) -> None:
        for op in ops:
            device = self.placements[op].assigned
            self._by_op[op] = ExecNode(op.name, op.type, device, [t.dtype for t in op.values()], op)
        for op, node in self._by_op.items():
            node.inputs = [self._port(t) for t in op.inputs]
            node.controls = [self._by_op[c] for c in self._controls(op)]

    def _port(self, tensor: Tensor) -> Port:
        if tensor in self._fed:
            return self.args[tensor], 0
        return self._by_op[tensor.op], tensor.value_index

    def _make_retvals(self) -> list[ExecNode]:
        """One per fetch, in the order of `fetches`; numbered in the order of their names."""
        unique = sorted(set(self.fetches), key=lambda t: t.name)
        numbers = {t: i for i, t in enumerate(unique)}
        made: dict[Tensor, ExecNode] = {}
        for tensor, i in numbers.items():
            dtype = tensor.dtype.base_dtype
            node = ExecNode(
                f"_retval_{tensor.op.name}_{tensor.value_index}_{i}",
                "_Retval",
                self._placer.client,
                [],
                attrs={"T": dtype, "index": i},
            )
            node.inputs = [self._port(tensor)]
            made[tensor] = node
        self.retval_of = made
        return list(made.values())

    # -- partitioning --------------------------------------------------------------------------

    def _close_loops_in_place(self) -> None:
        """What goes back to the beginning of a loop is handed over where the loop begins."""
        for node in self._by_op.values():
            if node.op_type in MERGES:
                for source, _ in node.inputs:
                    if source.op_type in NEXT_ITERATIONS:
                        source.device = node.device

    def _partition(self, nodes: Sequence[ExecNode]) -> list[ExecNode]:
        """Put a send and a receive on every edge between devices; the nodes that were added."""
        added: list[ExecNode] = []
        received: dict[tuple[ExecNode, int, str], ExecNode] = {}
        waited: dict[tuple[ExecNode, str], ExecNode] = {}
        edges = 0
        for node in nodes:
            for i, (source, slot) in enumerate(node.inputs):
                if source.device == node.device:
                    continue
                key = (source, slot, node.device)
                if key not in received:
                    edges += 1
                    received[key] = self._transfer(
                        (source, slot), source.output_dtypes[slot].base_dtype, node, edges, added
                    )
                node.inputs[i] = (received[key], 0)
            for i, source in enumerate(node.controls):
                if source.device == node.device:
                    continue
                if (source, node.device) not in waited:
                    edges += 1
                    waited[source, node.device] = self._signal(source, node, edges, added)
                node.controls[i] = waited[source, node.device]
        return added

    def _transfer(
        self,
        port: Port,
        dtype: DType,
        target: ExecNode,
        edge: int,
        added: list[ExecNode],
        origin: str = "",
    ) -> ExecNode:
        source = port[0]
        origin = origin or source.name
        attrs = {
            "tensor_name": f"edge_{edge}_{origin}",
            "send_device": source.device,
            "send_device_incarnation": 1,
            "recv_device": target.device,
            "client_terminated": False,
            "_src": origin,
            "_dst": target.name,
        }
        number = len(added)
        send = ExecNode(
            f"{origin}/_{number}", "_Send", source.device, [], attrs={"T": dtype, **attrs}
        )
        send.inputs = [port]
        recv = ExecNode(
            f"{origin}/_{number + 1}",
            "_Recv",
            target.device,
            [dtype],
            attrs={"tensor_type": dtype, **attrs},
        )
        recv.controls = [send]
        self.sends[recv] = send
        added += [send, recv]
        return recv

    def _signal(
        self, source: ExecNode, target: ExecNode, edge: int, added: list[ExecNode]
    ) -> ExecNode:
        """A control edge between devices: an empty constant is sent when the source is done."""
        empty = ExecNode(
            f"{source.name}/ctrl/_{len(added)}",
            "Const",
            source.device,
            [float32],
            attrs={"dtype": float32, "value": np.zeros(0, np.float32)},
        )
        empty.controls = [source]
        added.append(empty)
        recv = self._transfer((empty, 0), float32, target, edge, added, origin=source.name)
        done = ExecNode(
            f"{source.name}/_{len(added)}",
            "Identity",
            target.device,
            [float32],
            attrs={"T": float32},
        )
        done.inputs = [(recv, 0)]
        added.append(done)
        return done

    def transfer_key(self, node: ExecNode) -> str:
        """Under what a `_Send` or `_Recv` meets its partner."""
        attrs = node.attrs
        return rendezvous_key(attrs["send_device"], attrs["recv_device"], attrs["tensor_name"])

    # -- out -----------------------------------------------------------------------------------

    def partition_graphs(self) -> list[Any]:
        """One GraphDef per device."""
        graphs = {device: GraphDef() for device in self.devices}
        for graph in graphs.values():
            graph.versions.producer = PRODUCER
        for node in self.nodes:
            graphs[node.device].node.append(node.node_def())
        return [graphs[device] for device in sorted(graphs)]


def _refuse_collectives(ops: Sequence[Operation]) -> None:
    for op in ops:
        if op.op_type.kernel is None:
            raise UnimplementedError(
                op.node_def,
                op,
                f"The embedded engine cannot run {op.type} (node {op.name!r}): "
                "it has no kernel for it. Run this graph on TensorFlow.",
            )


def dependencies(node: ExecNode) -> Iterator[ExecNode]:
    """The nodes that must be done before this one first executes: a loop's way back is no such."""
    if node.op_type in MERGES:
        for source, _ in node.inputs:
            if source.op_type not in NEXT_ITERATIONS:
                yield source
    else:
        for source, _ in node.inputs:
            yield source
    yield from node.controls


def _ordered(nodes: Sequence[ExecNode], retvals: Sequence[ExecNode]) -> list[ExecNode]:
    """Inputs first, each result finished before the next is begun (few tensors alive at once).

    All that comes into a loop is there before the loop begins. Whatever depends on an op that may
    block comes after everything that does not.
    """
    _refuse_cycles(nodes)
    late = _after_blocking(nodes)
    entering = _entering(nodes)
    order: dict[ExecNode, None] = {}
    begun: set[ExecNode] = set()
    roots = [*retvals, *nodes]

    def before(node: ExecNode) -> Iterator[ExecNode]:
        begun.add(node)
        yield from dependencies(node)
        yield from entering.get(node, ())

    for allowed in (False, True):
        for root in roots:
            stack: list[tuple[ExecNode, Iterator[ExecNode]]] = []
            if root not in order and (root in late) <= allowed:
                stack.append((root, before(root)))
            while stack:
                node, rest = stack[-1]
                following = next((d for d in rest if d not in begun), None)
                if following is None:
                    order[node] = None
                    stack.pop()
                else:
                    stack.append((following, before(following)))
    return list(order)


def _entering(nodes: Sequence[ExecNode]) -> dict[ExecNode, list[ExecNode]]:
    """Per Enter, all that comes into its loop."""
    loops: dict[bytes, list[ExecNode]] = {}
    for node in nodes:
        if node.op_type in ENTERS:
            assert node.op is not None
            loops.setdefault(node.op.get_attr("frame_name"), []).append(node)
    return {
        node: [source for enter in enters for source in dependencies(enter)]
        for enters in loops.values()
        for node in enters
    }


def _refuse_cycles(nodes: Sequence[ExecNode]) -> None:
    """InvalidArgumentError where nodes wait for each other: none of them could ever execute."""
    waiting: dict[ExecNode, int] = {}
    users: dict[ExecNode, list[ExecNode]] = {}
    for node in nodes:
        before = list(dependencies(node))
        waiting[node] = len(before)
        for source in before:
            users.setdefault(source, []).append(node)
    free = [n for n in nodes if not waiting[n]]
    while free:
        for user in users.get(free.pop(), ()):
            waiting[user] -= 1
            if not waiting[user]:
                free.append(user)
    stuck = next((n for n in nodes if waiting[n]), None)
    if stuck is None:
        return
    way: list[ExecNode] = []
    while stuck not in way:
        way.append(stuck)
        stuck = next(d for d in dependencies(stuck) if waiting[d])
    cycle = way[way.index(stuck) :][::-1]
    names = " -> ".join(n.name for n in [*cycle, cycle[0]])
    raise InvalidArgumentError.without_op(
        f"Graph is invalid, contains a cycle with {len(cycle)} nodes: {names}. Each of them waits "
        "for the one before it, so none can execute. Take away one of these inputs or control "
        "inputs; only a loop (tf.while_loop) may go back.",
    )


_BLOCKING = ("Dequeue", "Enqueue")


def _after_blocking(nodes: Sequence[ExecNode]) -> set[ExecNode]:
    users: dict[ExecNode, list[ExecNode]] = {}
    for node in nodes:
        for source in dependencies(node):
            users.setdefault(source, []).append(node)
    late: set[ExecNode] = set()
    stack = [n for n in nodes if any(word in n.op_type for word in _BLOCKING)]
    while stack:
        node = stack.pop()
        if node not in late:
            late.add(node)
            stack.extend(users.get(node, ()))
    return late
