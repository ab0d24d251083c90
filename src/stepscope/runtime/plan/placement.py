"""Which device each op goes to, and why.

Ops that must share a device (colocation classes, references and resources) form groups; a group
goes where any of its members was asked to go. A request for a device that is not there fails,
unless soft placement is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stepscope.errors import InvalidArgumentError
from stepscope.graph import DeviceSpec, Operation
from stepscope.graph.dtypes import resource
from stepscope.metadata import Placement


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a session."""

    name: str
    device_type: str
    index: int
    memory_limit_bytes: int = 256 << 20
    incarnation: int = 1

    @property
    def spec(self) -> DeviceSpec:
        return DeviceSpec.parse(self.name)


def local_devices(count: int) -> list[Device]:
    """CPU devices 0 to count-1 of this process."""
    return [
        Device(f"/job:localhost/replica:0/task:0/device:CPU:{i}", "CPU", i) for i in range(count)
    ]


class Placer:
    """Places ops on the devices of one session."""

    def __init__(self, devices: Sequence[Device], *, soft: bool) -> None:
        self._devices = [(d.name, d.spec) for d in devices]
        self._soft = soft

    @property
    def client(self) -> str:
        """The device where fed values enter and fetched values leave."""
        return self._devices[0][0]

    def place(self, ops: Iterable[Operation]) -> dict[Operation, Placement]:
        """Device and reason of every op; InvalidArgumentError naming the op if there is none."""
        ops = list(ops)
        leaders = _groups(ops)
        decided: dict[Operation, tuple[Operation, str, str]] = {}
        for op in ops:
            if op.device:
                leader = leaders[op]
                assigned, reason = self._requested(op)
                known = decided.get(leader)
                if known is None or known[2] == "soft placement":
                    decided[leader] = (op, assigned, reason)
                elif assigned != known[1] and reason != "soft placement":
                    # Whatever works on a resource goes where the resource was asked to be.
                    if _works_on_resource(known[0]):
                        decided[leader] = (op, assigned, reason)
                    elif not _works_on_resource(op):
                        self._refuse_conflict(op, known[0])
        return {op: self._placement(op, decided.get(leaders[op])) for op in ops}

    def _requested(self, op: Operation) -> tuple[str, str]:
        spec = DeviceSpec.parse(op.device)
        for name, full in self._devices:
            if spec.matches(full):
                return name, "asked for"
        if self._soft:
            return self.client, "soft placement"
        available = ", ".join(name for name, _ in self._devices)
        raise InvalidArgumentError(
            op.node_def,
            op,
            f"Cannot assign a device for operation {op.name}: {{{{node {op.name}}}}} was "
            f"explicitly assigned to {op.device} but available devices are [ {available} ]. "
            "Make sure the device specification refers to a valid device, or set "
            "ConfigProto(allow_soft_placement=True).",
        )

    def _refuse_conflict(self, op: Operation, other: Operation) -> None:
        if self._soft:
            return
        raise InvalidArgumentError(
            op.node_def,
            op,
            f"Cannot colocate nodes {{{{colocation_node {op.name}}}}} and "
            f"{{{{colocation_node {other.name}}}}} because no device type supports both of them: "
            f"'{op.device}' and '{other.device}' were asked for.",
        )

    def _placement(self, op: Operation, decided: tuple[Operation, str, str] | None) -> Placement:
        if decided is None:
            return Placement(op.name, op.type, op.device, self.client, "default")
        leader, assigned, reason = decided
        got_it = op.device and DeviceSpec.parse(op.device).matches(DeviceSpec.parse(assigned))
        if leader is not op and not (got_it and reason == "asked for"):
            reason = f"colocated with {leader.name}"
        return Placement(op.name, op.type, op.device, assigned, reason)


def _groups(ops: Sequence[Operation]) -> Mapping[Operation, Operation]:
    """Each op's group, named by its first member."""
    parent = {op: op for op in ops}

    def find(op: Operation) -> Operation:
        while parent[op] is not op:
            parent[op] = parent[parent[op]]
            op = parent[op]
        return op

    by_name = {op.name: op for op in ops}
    for op in ops:
        partners = [
            t.op for t in op.inputs if t.dtype is resource or _is_ref_edge(op, t.value_index, t.op)
        ]
        partners += [
            by_name[name]
            for group in op.colocation_groups()
            if (name := group.decode().removeprefix("loc:@")) in by_name
        ]
        for partner in partners:
            if partner in parent and find(partner) is not find(op):
                parent[find(op)] = find(partner)
    return {op: find(op) for op in ops}


def _works_on_resource(op: Operation) -> bool:
    return any(t.dtype is resource for t in op.inputs)


def _is_ref_edge(consumer: Operation, index: int, producer: Operation) -> bool:
    if not producer.values()[index].dtype._is_ref_dtype:
        return False
    return any(arg.is_ref for arg in consumer.op_type.inputs)
