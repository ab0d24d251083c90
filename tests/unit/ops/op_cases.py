"""Rows that say "build this with TensorFlow and with us, the rest must be the same".

`cases_<family>.py` files, in the rooms of `stepscope.ops`, hold `CASES`, lists of `Case`. A case's
`build` gets TensorFlow's `compat.v1` once and our own functions under the same names once.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import stepscope.layers.losses
import stepscope.ops
import stepscope.programs.data
import stepscope.programs.data.experimental
import stepscope.tf1
from stepscope.graph import dtypes
from stepscope.graph.build import apply_op
from stepscope.graph.constants import constant_as_shape
from stepscope.graph.graph import Graph, name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import (
    Kernel,
    KernelNode,
    ShapeContext,
    infer_shapes,
    lookup,
)
from stepscope.graph.shapes import UNKNOWN, TensorShape
from stepscope.layers import (
    clipping,
    global_steps,
    initializers,
    optimizer_base,
    optimizers,
    truth_metrics,
    variable_scope,
)
from stepscope.layers.text import embeddings
from stepscope.ops.flow.switches import FLOW
from stepscope.ops.resources import ResourceStore


@dataclass(frozen=True)
class Case:
    """One thing to build, and how its results are compared."""

    id: str
    op_types: tuple[str, ...]
    """The op types the row is a test of; all of them must be in the graph that TensorFlow built."""
    build: Callable[[Any], Any]
    """`build(tf)` gives a tensor, an operation or a (nested) list of tensors."""
    feeds: Mapping[str, Any] = field(default_factory=dict)
    """By tensor name."""
    tol: float = 1e-6
    """Largest relative and absolute difference of floats."""
    values: bool = True
    """False for random ops: only dtypes and shapes are compared then."""
    graph: bool = True
    """False where our graph is known to be another one than TensorFlow's; say why in the row."""
    grad: bool = True
    """False where gradients are not compared; say why in the row."""
    init: bool = False
    """Whether `tf.global_variables_initializer()` is built last and run first."""
    fails: str = ""
    """"build" or "run" where both must fail there."""
    match: str = ""
    """What our message must contain when it fails."""


def all_cases() -> list[Case]:
    """The rows of every `cases_*.py` beside this file."""
    here = Path(__file__).parent
    cases: list[Case] = []
    for path in sorted(here.rglob("cases_*.py"), key=lambda path: path.name):
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        cases += importlib.import_module(path.stem).CASES
    return cases


_RENAMED = {"reduction_indices": "axis"}
"""Inputs that `tf.raw_ops` calls something else."""


class _RawOps:
    """Op types applied by name, as `tf.raw_ops` does."""

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        def call(name: str | None = None, **arguments: Any) -> Any:
            definition = lookup(op_type)
            names = [_RENAMED.get(spec.name, spec.name) for spec in definition.inputs]
            inputs = [arguments.pop(name) for name in names]
            op = apply_op(op_type, *inputs, name=name, **arguments)
            outputs = op.values()
            return outputs[0] if len(outputs) == 1 else list(outputs) or op

        return call


class Names:
    """Our functions under TensorFlow's names; `tf.nn`, `tf.math` and so on are all one place."""

    def __init__(self) -> None:
        self.raw_ops = _RawOps()
        self.bool = dtypes.bool_
        self.name_scope = name_scope
        self.summary = stepscope.tf1.summary
        self.bitwise, self.linalg = stepscope.tf1.bitwise, stepscope.tf1.linalg
        self.strings, self.lookup = stepscope.tf1.strings, stepscope.tf1.lookup
        self.losses = stepscope.layers.losses
        self.data = stepscope.programs.data
        self.nn = self.math = self.random = self
        self.io = self.initializers = self.train = self.queue = self.debugging = self
        self.image = self

    def __getattr__(self, name: str) -> Any:
        for family in _families():
            if name in vars(family) and not name.startswith("_"):
                return vars(family)[name]
        if f"{name}_" in vars(stepscope.ops.arrays.slicing):
            return vars(stepscope.ops.arrays.slicing)[f"{name}_"]
        if hasattr(dtypes, name):
            return getattr(dtypes, name)
        raise AttributeError(f"no op function is called {name!r}")


_OF_OPS = (
    clipping, embeddings, global_steps, initializers, optimizer_base, optimizers, truth_metrics,
    variable_scope,
)  # fmt: skip
"""Modules above the ops whose functions have the names TensorFlow has them under."""


def _families() -> list[types.ModuleType]:
    families = [
        module
        for module in vars(stepscope.ops).values()
        if isinstance(module, types.ModuleType) and not hasattr(module, "__path__")
    ]
    return sorted([*families, *_OF_OPS], key=lambda module: module.__name__)


OURS = Names()


def flatten(structure: Any) -> list[Any]:
    if isinstance(structure, (list, tuple)):
        return [item for part in structure for item in flatten(part)]
    return [structure]


def as_array(value: Any) -> Any:
    # NumPy's own type of bytes drops zeros at their end.
    return np.array(value, object) if isinstance(value, bytes) else np.asarray(value)


def assert_same_value(ours: Any, theirs: Any, tol: float, what: str) -> None:
    ours, theirs = as_array(ours), as_array(theirs)
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, TensorFlow's {theirs.shape}"
    if theirs.dtype.kind in "SUO":
        # An array of one string inside an array equals the string: the types tell them apart.
        assert [type(v) for v in ours.flat] == [type(v) for v in theirs.flat], what
        assert ours.reshape(-1).tolist() == theirs.reshape(-1).tolist(), what
        return
    assert ours.dtype == theirs.dtype, f"{what}: dtype {ours.dtype}, TensorFlow's {theirs.dtype}"
    if theirs.dtype.kind in "fc":
        if theirs.dtype == np.float16:
            tol = max(tol, 2e-3)
        np.testing.assert_allclose(ours, theirs, rtol=tol, atol=tol, err_msg=what)
    else:
        np.testing.assert_array_equal(ours, theirs, err_msg=what)


# -- our graph, node by node -------------------------------------------------------------------


def evaluate(graph: Graph, fetches: list[Any], feeds: Mapping[str, Any]) -> list[Any]:
    """The values of the fetches, by calling one kernel after the other.

    On the way every stateless kernel is called in each way an engine may call it: with and without
    a buffer, with the buffer of an input it may write to, planned with all shapes known and with
    none. All of them must agree, leave the inputs as they were, and keep to the shape rule.
    """
    values: dict[Tensor, Any] = {}
    for name, value in feeds.items():
        tensor = graph.get_tensor_by_name(name)
        values[tensor] = np.asarray(value, tensor.dtype.numpy)
    store = ResourceStore()
    needed = _ancestors(fetches, values)
    with np.errstate(all="ignore"):
        for op in graph.get_operations():
            if op in needed and not all(t in values for t in op.outputs):
                values.update(zip(op.outputs, _run(op, values, store), strict=True))
    return [None if isinstance(f, Operation) else values[f] for f in fetches]


def is_pure(fetches: list[Any]) -> bool:
    """Whether no node that the fetches need has a state or looks at the run it is part of."""
    ops = _ancestors(fetches, {})
    return not any(op.op_type.stateful or op.control_inputs or op.type in FLOW for op in ops)


def _ancestors(fetches: list[Any], known: Mapping[Tensor, Any]) -> set[Operation]:
    stack = [f if isinstance(f, Operation) else f.op for f in fetches]
    found: set[Operation] = set()
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack += [t.op for t in op.inputs if t not in known]
            stack += op.control_inputs
    return found


def _run(op: Operation, values: Mapping[Tensor, Any], store: ResourceStore) -> list[Any]:
    inputs = [values[t] for t in op.inputs]
    before = [np.array(v) if isinstance(v, np.ndarray) else v for v in inputs]
    shapes = tuple(TensorShape(np.shape(v)) for v in inputs)
    rule = infer_shapes(
        op.op_type,
        ShapeContext(
            op.type,
            op.attrs,
            shapes,
            tuple(t.dtype for t in op.inputs),
            lambda i: np.asarray(inputs[i]),
            lambda i: (
                TensorShape([None if d < 0 else int(d) for d in np.ravel(inputs[i])])
                if np.asarray(inputs[i]).dtype.kind in "iu"
                else constant_as_shape(op.inputs[i])
            ),
        ),
    )
    known = tuple(
        v if t.op.type == "Const" else None for t, v in zip(op.inputs, inputs, strict=True)
    )
    kernel = _kernel(op, shapes, rule, known, store)
    results = _outputs(_plain_call(kernel, inputs))
    _check(op, "plain", results, results, rule)
    if op.op_type.stateful or kernel.context or kernel.opaque:
        return results
    nothing = (UNKNOWN,) * len(inputs)
    blind = _kernel(op, nothing, (UNKNOWN,) * len(results), (None,) * len(inputs), store)
    for way, candidate in (("planned", kernel), ("unplanned", blind)):
        for label, answer in _all_ways(op, candidate, inputs, results):
            _check(op, f"{way}, {label}", answer, results, rule)
    for old, new in zip(before, inputs, strict=True):
        if isinstance(old, np.ndarray):
            np.testing.assert_array_equal(old, new, err_msg=f"{op.name} wrote to an input")
    return results


def _kernel(
    op: Operation,
    inputs: tuple[TensorShape, ...],
    outputs: tuple[TensorShape, ...],
    constants: tuple[Any, ...],
    store: ResourceStore,
) -> Kernel:
    assert op.op_type.kernel is not None
    return op.op_type.kernel(
        KernelNode(
            op=op,
            input_shapes=inputs,
            output_shapes=outputs,
            input_dtypes=tuple(t.dtype for t in op.inputs),
            output_dtypes=tuple(t.dtype for t in op.outputs),
            constants=constants,
            resources=store,
        )
    )


def _plain_call(kernel: Kernel, inputs: list[Any]) -> Any:
    if kernel.value is not None:
        return kernel.value
    return kernel.call(*([None] if kernel.context else []), *inputs)


def _outputs(result: Any) -> list[Any]:
    if result is None:
        return []
    return list(result) if isinstance(result, tuple) else [result]


def _all_ways(op: Operation, kernel: Kernel, inputs: list[Any], results: list[Any]) -> Any:
    yield "no buffer", _outputs(_plain_call(kernel, inputs))
    scalars = [v[()] if np.ndim(v) == 0 and np.asarray(v).dtype != object else v for v in inputs]
    yield "NumPy scalars", _outputs(_plain_call(kernel, scalars))
    if not kernel.out or kernel.value is not None:
        return
    shape, dtype = np.shape(results[0]), op.outputs[0].dtype.numpy
    buffer = np.full(shape, 77).astype(dtype)
    answer = _buffered(kernel, inputs, buffer)
    assert answer is buffer or np.shares_memory(answer, buffer) or not buffer.size, op.name
    yield "buffer", [buffer]
    for index in kernel.forwards:
        given = np.asarray(inputs[index])
        if given.shape == shape and given.dtype == dtype:
            own = np.array(given, order="C")
            shared = [own if v is inputs[index] else v for v in inputs]
            _buffered(kernel, shared, own)
            yield f"input {index}'s buffer", [own]


def _buffered(kernel: Kernel, inputs: list[Any], buffer: Any) -> Any:
    if kernel.out == "positional":
        return kernel.call(*inputs, buffer)
    return kernel.call(*inputs, out=buffer)


def _check(
    op: Operation, way: str, answer: list[Any], results: list[Any], rule: tuple[TensorShape, ...]
) -> None:
    what = f"{op.name} ({op.type}), {way}"
    for tensor, value, expected, shape in zip(op.outputs, answer, results, rule, strict=True):
        if not isinstance(value, (np.ndarray, np.generic)):
            assert tensor.dtype.base_dtype in (dtypes.resource, dtypes.variant) or (
                tensor.dtype._is_ref_dtype
            ), f"{what}: {type(value)}"
            continue
        assert value.dtype == tensor.dtype.base_dtype.numpy, f"{what}: {value.dtype}"
        assert shape.is_compatible_with(value.shape), f"{what}: {shape} but {value.shape}"
        assert tensor.shape.is_compatible_with(value.shape), f"{what}: {tensor.shape}"
        assert value.shape == expected.shape, what
        if value.dtype != object:
            np.testing.assert_allclose(value, expected, rtol=1e-6, err_msg=what)
        else:
            assert value.reshape(-1).tolist() == expected.reshape(-1).tolist(), what
