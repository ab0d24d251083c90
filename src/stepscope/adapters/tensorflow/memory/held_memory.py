"""What the program holds, found by its own means: variables and eager tensors, with addresses.

The allocator knows which op asked for memory, not what became of it: a variable's memory was asked
for by whatever computed its value. Eager variables and tensors are found among Python's objects,
and their buffers' addresses tell which allocation is theirs. A session's variables are inside
TensorFlow, where only the graph leads: to the ops whose outputs are assigned to them.

Guarantees. Looking runs on a thread of its own, so that neither the caller's gradient tapes nor a
recording sees it. It allocates nothing in TensorFlow, and what cannot be read is left out.
"""

from __future__ import annotations

import contextlib
import gc
import math
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.memory.allocator_events import CPU, Held

_LATELY_NS: Final = 1_000_000_000
FROM_PYTHON: Final = "eager tensor made from a Python value"
_ASSIGNS: Final = frozenset(
    {
        "Assign",
        "AssignAdd",
        "AssignSub",
        "AssignVariableOp",
        "AssignAddVariableOp",
        "AssignSubVariableOp",
        "ResourceScatterUpdate",
    }
)
_VARIABLES: Final = frozenset({"VarHandleOp", "Variable", "VariableV2"})


class Owned(NamedTuple):
    """A tensor of the program's own."""

    name: str
    """Of a variable; "" for an eager tensor."""
    kind: str
    bytes: int
    dtype: int
    shape: tuple[int, ...]
    address: int = 0


class Assigned(NamedTuple):
    """That an op's output becomes a variable's value."""

    variable: Owned
    by: str
    """The op that assigns."""


@dataclass(frozen=True, slots=True)
class ProgramMemory:
    """What the program was found to hold."""

    owned: Mapping[int, Owned] = field(default_factory=dict)
    """Eager variables and tensors by address."""
    assigned: Mapping[str, Assigned] = field(default_factory=dict)
    """A session's variables by the names of the ops that make their values."""
    outputs: Mapping[str, Owned] = field(default_factory=dict)
    """What ops of a session's graph put out, where the graph tells its shape."""
    taken_ns: int = 0

    def name(self, held: Held, own_steps: Collection[int] = (), done: Collection[str] = ()) -> Held:
        """The same memory under the program's own name for it, where it has one.

        `own_steps` are the executor's steps of a run that is not over, and `done` the ops that it
        has executed: what it has not assigned yet is no variable.
        """
        found = self.owned.get(held.address)
        if found is not None and held.requested == found.bytes and held.time_ns <= self.taken_ns:
            return held._replace(
                name=found.name or held.name or FROM_PYTHON,
                kind=found.kind,
                dtype=found.dtype,
                shape=found.shape,
            )
        assigned = self.assigned.get(held.name)
        if (
            assigned is not None
            and assigned.variable.bytes == held.requested
            and (held.step not in own_steps or assigned.by in done)
        ):
            variable = assigned.variable
            return held._replace(
                name=variable.name, kind="variable", dtype=variable.dtype, shape=variable.shape
            )
        output = self.outputs.get(held.name)
        if held.shape is None and output is not None and output.bytes == held.requested:
            # Of what was computed before the run, such as constants, the allocator has no shapes.
            return held._replace(dtype=output.dtype, shape=output.shape)
        return held


class _NoGraph:
    """The key of what was found without a graph."""


_NO_GRAPH: Final = _NoGraph()
_lately: weakref.WeakKeyDictionary[Any, ProgramMemory] = weakref.WeakKeyDictionary()


def look_lately(graph: Any = None) -> ProgramMemory:
    """As `look`, or what it found within the last second: looking through all objects takes long.

    What was allocated since then has no name of the program's own.
    """
    where = graph if graph is not None else _NO_GRAPH
    found = _lately.get(where)
    if found is None or time.time_ns() - found.taken_ns > _LATELY_NS:
        found = _lately[where] = look(graph)
    return found


def look(graph: Any = None) -> ProgramMemory:
    """What the program holds now; with the graph of a session, the variables of that too."""
    owned = _ended.eager if _ended.eager is not None else _eager_now()
    now = time.time_ns()
    if graph is None:
        return ProgramMemory(owned, taken_ns=now)
    return ProgramMemory(owned, _assigned(graph), dict(_outputs(graph)), now)


class _Ended:
    """Of a program that has ended."""

    eager: Mapping[int, Owned] | None = None
    """What its eager code held at its end; None before that."""


_ended: Final = _Ended()


def program_ended() -> None:
    """What eager code holds now is what looks find from here on.

    For the end of a script, before the garbage collector is told to pass over what it left
    (`gc.freeze`): what the collector passes over cannot be looked through either.
    """
    _ended.eager = _eager_now()


def _eager_now() -> Mapping[int, Owned]:
    owned: dict[int, Owned] = {}
    _on_another_thread(lambda: owned.update(_eager()))
    return owned


def _on_another_thread(work: Callable[[], None]) -> None:
    def guarded() -> None:
        with contextlib.suppress(Exception):  # an object's own code may do anything
            work()

    thread = threading.Thread(target=guarded, name="stepscope/held_memory", daemon=True)
    thread.start()
    thread.join()


# -- eager code --------------------------------------------------------------------------------


def _eager() -> Iterator[tuple[int, Owned]]:
    tf = versions.tensorflow()
    if not tf.executing_eagerly():
        return
    tensors: list[Any] = []
    variables: list[Any] = []
    eager, variable = tf.__internal__.EagerTensor, tf.Variable
    for item in gc.get_objects():
        kind = type(item)
        if kind is eager:
            tensors.append(item)
        elif issubclass(kind, variable):
            variables.append(item)
    for tensor in tensors:
        found = _of_tensor(tensor, "", "output")
        if found is not None:
            yield found.address, found
    # After the tensors: a variable's value may be held by one of them, too.
    for item in variables:
        found = _of_variable(tf, item, eager)
        if found is not None:
            yield found.address, found


def _of_variable(tf: Any, variable: Any, eager: type) -> Owned | None:
    try:
        if not isinstance(variable.handle, eager):
            return None
        value = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
        return _of_tensor(value, str(variable.name).partition(":")[0], "variable")
    except Exception:  # noqa: BLE001 - not initialized, deleted, of a distribution strategy
        return None


def _of_tensor(tensor: Any, name: str, kind: str) -> Owned | None:
    address = address_of(tensor)
    if not address:
        return None
    shape = tuple(tensor.shape.as_list())
    dtype = tensor.dtype
    size = math.prod(shape) * dtype.size
    return Owned(name, kind, size, dtype.as_datatype_enum, shape, address)


def address_of(tensor: Any) -> int:
    """Where an eager tensor's values are in this machine's memory; 0 if they are not."""
    try:
        dtype = tensor.dtype
        if "CPU" not in tensor.device or not dtype.is_numpy_compatible or not dtype.size:
            return 0
        if dtype.name == "string":
            return 0
        return int(np.asarray(memoryview(tensor)).__array_interface__["data"][0])
    except Exception:  # noqa: BLE001 - no buffer to be had: a packed, a deleted, a remote one
        return 0


# -- sessions ----------------------------------------------------------------------------------


def _assigned(graph: Any) -> dict[str, Assigned]:
    """By the names of ops whose output, or what shares its memory, is assigned to one variable."""
    found: dict[str, Assigned] = {}
    shared: set[str] = set()
    for op in graph.get_operations():
        if op.type not in _ASSIGNS:
            continue
        variable = _variable_of(op)
        if variable is None:
            continue
        for name in _makers(op, variable):
            known = found.setdefault(name, Assigned(variable, op.name))
            if known.variable.name != variable.name:
                shared.add(name)
    return {name: assigned for name, assigned in found.items() if name not in shared}


def _variable_of(assign: Any) -> Owned | None:
    target = assign.inputs[0].op
    while target.type not in _VARIABLES and target.inputs:
        target = target.inputs[0].op
    if target.type not in _VARIABLES:
        return None
    shape = target.get_attr("shape")
    dtype = versions.tensorflow().as_dtype(target.get_attr("dtype"))
    if shape.unknown_rank or any(axis.size < 0 for axis in shape.dim):
        return None
    axes = tuple(int(axis.size) for axis in shape.dim)
    size = math.prod(axes) * dtype.size
    return Owned(target.name, "variable", size, dtype.as_datatype_enum, axes)


def _makers(assign: Any, variable: Owned) -> Iterator[str]:
    """The assigning op, and what its value may share memory with: inputs as large as it."""
    yield assign.name
    stack, seen = [assign.inputs[1]], set()
    while stack:
        tensor = stack.pop()
        if tensor.op.name in seen or _static_bytes(tensor) not in (None, variable.bytes):
            continue
        seen.add(tensor.op.name)
        yield tensor.op.name
        if tensor.op.type not in _VARIABLES and tensor.op.type != "ReadVariableOp":
            stack.extend(tensor.op.inputs)


def _static_bytes(tensor: Any) -> int | None:
    if tensor.shape.rank is None or None in tensor.shape.as_list():
        return None
    return int(math.prod(tensor.shape.as_list()) * tensor.dtype.size)


def _outputs(graph: Any) -> Iterator[tuple[str, Owned]]:
    for op in graph.get_operations():
        if len(op.outputs) == 1:
            tensor = op.outputs[0]
            size = _static_bytes(tensor)
            if size:
                kind = tensor.dtype.as_datatype_enum
                shape = tuple(tensor.shape.as_list())
                yield op.name, Owned(op.name, "temporary", size, kind, shape)


class InSession(NamedTuple):
    """What memory has to do with of the session of a run. Not the run itself, which has this."""

    graph: Any
    native_run: Callable[..., Any]
    """TensorFlow's own `run` of the session."""


def variables_inside(session: InSession, known: Collection[str]) -> list[Owned]:
    """The variables of a session that have a value, but for those that are known."""
    found = {}
    for op in session.graph.get_operations():
        if op.type in _ASSIGNS:
            variable = _variable_of(op)
            if variable is not None and variable.name not in known:
                found[variable.name] = variable
    readers = {
        op.inputs[0].op.name: op
        for op in session.graph.get_operations()
        if op.type == "ReadVariableOp" and not op.control_inputs
    }
    has_value = []
    for name, variable in found.items():
        if name not in readers:
            continue
        try:
            # The op alone and not its value: nothing is copied.
            session.native_run(readers[name])
        except Exception:  # noqa: BLE001 - not initialized, or the session is closed
            continue
        has_value.append(variable)
    return has_value


def as_held(owned: Owned, device: str = CPU) -> Held:
    """Memory that was allocated before recording began; the allocator gives multiples of 256."""
    size = -(-owned.bytes // 256) * 256
    return Held(
        address=owned.address, bytes=size, requested=owned.bytes, time_ns=0, name=owned.name,
        device=device, dtype=owned.dtype, shape=owned.shape, kind=owned.kind,
    )  # fmt: skip
