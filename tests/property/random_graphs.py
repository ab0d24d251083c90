"""Random graphs: a list of nodes that is built as a graph, and evaluated with plain NumPy.

Values are small whole numbers wherever rounding could depend on the order of additions, so that
results can be compared exactly. The NumPy evaluation shares no code with the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from stepscope.graph.build import apply_op
from stepscope.graph.registry import Kernel, is_registered, register
from stepscope.graph.shapes import UNKNOWN

DTYPES = ["float32", "float64", "int32"]
MAX_ELEMENTS = 64


@dataclass
class Node:
    """One node: what it does, to which earlier nodes, on which device."""

    kind: str
    inputs: tuple[int, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)
    device: int = 0


@dataclass
class Spec:
    """A random graph with what is fetched from it; feeds and variables are by node index."""

    nodes: list[Node]
    fetches: list[int]
    devices: int

    @property
    def fed(self) -> list[int]:
        return [i for i, n in enumerate(self.nodes) if n.kind == "feed"]


# -- what a custom op keeps --------------------------------------------------------------------


class Keeper:
    """Keeps every array it is given and makes, without copying: (array, what it was)."""

    def __init__(self) -> None:
        self.kept: list[tuple[np.ndarray, np.ndarray]] = []

    def keep(self, array: np.ndarray) -> np.ndarray:
        self.kept.append((array, array.copy()))
        return array

    def check(self) -> None:
        for array, was in self.kept:
            np.testing.assert_array_equal(array, was)


KEEPER = Keeper()


def _keep_kernel(_node: Any) -> Kernel:
    def call(x: Any) -> Any:
        return KEEPER.keep(np.asarray(KEEPER.keep(np.asarray(x)) + np.asarray(x).dtype.type(1)))

    return Kernel(call, opaque=True)


if not is_registered("_TestKeepsArrays"):
    register(
        "_TestKeepsArrays",
        inputs=["x: T"],
        outputs=["y: T"],
        attrs=["T: type"],
        shape=lambda c: c.input(0),
        kernel=_keep_kernel,
        stateful=True,
    )
    register(
        "_TestKeepsArraysOfUnknownShape",
        inputs=["x: T"],
        outputs=["y: T"],
        attrs=["T: type"],
        shape=lambda _c: UNKNOWN,
        kernel=_keep_kernel,
        stateful=True,
    )


# -- the ops: in NumPy, and as nodes -----------------------------------------------------------


def _clip(x):
    return np.maximum(np.minimum(x, np.asarray(8, x.dtype)), np.asarray(-8, x.dtype))


NUMPY = {
    "negate": lambda x: -x,
    "absolute": np.abs,
    "relu": lambda x: np.maximum(x, np.zeros((), x.dtype)),
    "clip": _clip,
    "square": lambda x: _clip(x) * _clip(x),
    "copy": lambda x: x.copy(),
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "larger": np.maximum,
    "multiply": lambda a, b: _clip(a) * _clip(b),
    "dot": lambda a: _clip(a).reshape(1, -1) @ _clip(a).reshape(-1, 1),
    "outer": lambda a, b: _clip(a).reshape(-1, 1) @ _clip(b).reshape(1, -1),
    "reshape": lambda x, shape: x.reshape(shape),
    "transpose": lambda x: x.T,
    "first_half": lambda x: x[: x.shape[0] // 2],
    "last_row": lambda x: x[-1],
    "strided": lambda x: x[::2],
    "join": lambda a, b: np.concatenate([a.reshape(-1), b.reshape(-1)]),
    "stack": lambda a, b: np.stack([a.reshape(-1), a.reshape(-1) + b.reshape(-1)[0]]),
    "sum": lambda x: x.sum(dtype=x.dtype),
    "max_of_rows": lambda x: x.max(axis=0),
    "sum_of_rows": lambda x: x.sum(axis=0, keepdims=True, dtype=x.dtype),
    "cast": lambda x, dtype: x.astype(dtype),
    "keep": lambda x: x + x.dtype.type(1),
    "keep_unknown": lambda x: x + x.dtype.type(1),
    "doubled_by_python": lambda x: x * x.dtype.type(2),
    "halves": lambda x, part: np.split(x, 2)[part],
    "plus_transposed": lambda x: (x + x.dtype.type(1)) + (x + x.dtype.type(1)).T,
}


def _clipped(tf, x):
    return tf.maximum(tf.minimum(x, tf.cast(8, x.dtype)), tf.cast(-8, x.dtype))


def _python(tf, x):
    y = tf.py_func(lambda v: v * v.dtype.type(2), [x], x.dtype)
    y.set_shape(x.shape)
    return y


GRAPH = {
    "negate": lambda tf, x: tf.negative(x),
    "absolute": lambda tf, x: tf.abs(x),
    "relu": lambda tf, x: tf.nn.relu(x),
    "clip": _clipped,
    "square": lambda tf, x: tf.square(_clipped(tf, x)),
    "copy": lambda tf, x: tf.identity(x),
    "add": lambda tf, a, b: tf.add(a, b),
    "subtract": lambda tf, a, b: tf.subtract(a, b),
    "larger": lambda tf, a, b: tf.maximum(a, b),
    "multiply": lambda tf, a, b: tf.multiply(_clipped(tf, a), _clipped(tf, b)),
    "dot": lambda tf, a: tf.matmul(
        tf.reshape(_clipped(tf, a), [1, -1]), tf.reshape(_clipped(tf, a), [-1, 1])
    ),
    "outer": lambda tf, a, b: tf.matmul(
        tf.reshape(_clipped(tf, a), [-1, 1]), tf.reshape(_clipped(tf, b), [1, -1])
    ),
    "reshape": lambda tf, x, shape: tf.reshape(x, shape),
    "transpose": lambda tf, x: tf.transpose(x),
    "first_half": lambda tf, x: x[: x.shape.as_list()[0] // 2],
    "last_row": lambda tf, x: x[-1],
    "strided": lambda tf, x: x[::2],
    "join": lambda tf, a, b: tf.concat([tf.reshape(a, [-1]), tf.reshape(b, [-1])], 0),
    "stack": lambda tf, a, b: tf.stack(
        [tf.reshape(a, [-1]), tf.reshape(a, [-1]) + tf.reduce_sum(tf.reshape(b, [-1])[:1])]
    ),
    "sum": lambda tf, x: tf.reduce_sum(x),
    "max_of_rows": lambda tf, x: tf.reduce_max(x, axis=0),
    "sum_of_rows": lambda tf, x: tf.reduce_sum(x, axis=0, keepdims=True),
    "cast": lambda tf, x, dtype: tf.cast(x, dtype),
    "keep": lambda _tf, x: apply_op("_TestKeepsArrays", x).outputs[0],
    "keep_unknown": lambda _tf, x: _with_shape(
        apply_op("_TestKeepsArraysOfUnknownShape", x).outputs[0], x
    ),
    "doubled_by_python": _python,
    "halves": lambda tf, x, part: tf.split(x, 2)[part],
    "plus_transposed": lambda tf, x: _plus_transposed(tf, tf.add(x, tf.cast(1, x.dtype))),
}


def _plus_transposed(tf, y):
    """An op that reads a tensor and a view of it, and is the last to read either."""
    return tf.add(y, tf.transpose(y))


def _with_shape(y, x):
    """The static shape is needed to build what follows; at run time the plan merges it."""
    y.set_shape(x.shape)
    return y


# -- evaluating and building -------------------------------------------------------------------


def needed(spec: Spec) -> set[int]:
    """The nodes that a run of the fetches executes: what they depend on, accesses in order."""
    before: dict[int, int] = {}
    dependencies: list[set[int]] = []
    for i, node in enumerate(spec.nodes):
        mine = set(node.inputs)
        variable = node.params.get("variable")
        if variable is not None:
            mine |= {variable, before.get(variable, variable)}
            before[variable] = i
        dependencies.append(mine)
    wanted, stack = set(), list(spec.fetches)
    while stack:
        i = stack.pop()
        if i not in wanted:
            wanted.add(i)
            stack.extend(dependencies[i])
    return wanted


def evaluate(spec: Spec, fed: dict[int, Any], state: dict[int, Any]) -> list[Any]:
    """What is fetched of every node that runs; `state` (variables by their node) is updated.

    What was read from a reference variable is its memory: fetched, it is what the run leaves there.
    """
    values: list[Any] = []
    wanted = needed(spec)
    for i, node in enumerate(spec.nodes):
        if i not in wanted:
            values.append(None)
            continue
        inputs = [values[j] for j in node.inputs]
        if node.kind == "feed":
            value = fed[i].copy()
        elif node.kind == "constant":
            value = node.params["value"].copy()
        elif node.kind == "variable":
            state.setdefault(i, node.params["value"].copy())
            value = None
        elif node.kind == "read":
            value = state[node.params["variable"]].copy()
        elif node.kind in ("assign", "assign_add"):
            variable = node.params["variable"]
            old = state[variable]
            new = inputs[0].reshape(-1)[:1].sum(dtype=old.dtype) + np.zeros_like(old)
            state[variable] = new if node.kind == "assign" else old + new
            value = state[variable].copy()
        else:
            with np.errstate(all="ignore"):
                value = np.asarray(NUMPY[node.kind](*inputs, **node.params))
        values.append(value)
    for i, node in enumerate(spec.nodes):
        owner = node.params.get("variable")
        if i in wanted and owner is not None and not spec.nodes[owner].params["resource"]:
            values[i] = state[owner].copy()
    return values


@dataclass
class Built:
    """A spec as a graph: what is fetched of each node, and what initialises its variables."""

    graph: Any
    tensors: list[Any]
    init: Any


def build(spec: Spec, tf: Any) -> Built:
    graph = tf.Graph()
    tensors: list[Any] = []
    used: list[Any] = []
    variables: dict[int, Any] = {}
    last_touch: dict[int, Any] = {}
    with graph.as_default():
        for i, node in enumerate(spec.nodes):
            inputs = [used[j] for j in node.inputs]
            owner = node.params.get("variable", i)
            device = spec.nodes[owner].device if owner in variables else node.device
            with tf.device(f"/cpu:{device}"), tf.name_scope(f"n{i}"):
                tensors.append(_tensor(tf, i, node, inputs, variables, last_touch))
                used.append(tensors[-1])
                if "variable" in node.params and not spec.nodes[owner].params["resource"]:
                    # Others use a copy, made before the variable is touched again.
                    used[-1] = last_touch[owner] = tf.add(tensors[-1], tf.zeros_like(tensors[-1]))
        init = tf.group(*[v.initializer for v in variables.values()])
    return Built(graph, tensors, init)


def _tensor(tf, i, node, inputs, variables, last_touch):
    params = node.params
    if node.kind == "feed":
        return tf.placeholder(params["dtype"], params["shape"])
    if node.kind == "constant":
        return tf.constant(params["value"])
    if node.kind == "variable":
        variables[i] = tf.Variable(params["value"], use_resource=params["resource"])
        return None
    if "variable" in params:
        owner = params["variable"]
        variable = variables[owner]
        # Every access waits for the one before, so that there is one order of events.
        with tf.control_dependencies([last_touch[owner]] if owner in last_touch else []):
            if node.kind == "read":
                made = variable.read_value()
            else:
                x = tf.cast(tf.reduce_sum(tf.reshape(inputs[0], [-1])[:1]), variable.dtype)
                x = tf.fill(variable.shape.as_list(), x) if variable.shape.ndims else x
                change = tf.assign if node.kind == "assign" else tf.assign_add
                done = change(variable, x)
                with tf.control_dependencies([done]):
                    made = variable.read_value()
        last_touch[owner] = made
        return made
    return GRAPH[node.kind](tf, *inputs, **params)


# -- drawing -----------------------------------------------------------------------------------

_ANY = ["negate", "absolute", "relu", "clip", "square", "copy", "sum", "keep", "doubled_by_python",
        "keep_unknown", "reshape", "transpose", "cast", "dot"]  # fmt: skip
_NEEDS_AN_AXIS = ["first_half", "last_row", "strided", "max_of_rows", "sum_of_rows", "halves"]
_TWO = ["add", "subtract", "larger", "multiply", "join", "stack", "outer"]


@st.composite
def arrays(draw, shape=None):
    if shape is None:
        shape = tuple(draw(st.lists(st.integers(1, 4), max_size=2)))
    dtype = draw(st.sampled_from(DTYPES))
    count = int(np.prod(shape))
    numbers = draw(st.lists(st.integers(-4, 4), min_size=count, max_size=count))
    return np.array(numbers, dtype).reshape(shape)


@st.composite
def specs(draw, max_nodes=14, max_devices=3):
    """A graph that has at least one feed and one fetch, and whose tensors stay small."""
    devices = draw(st.integers(1, max_devices))
    nodes: list[Node] = []
    values: list[Any] = []
    state: dict[int, Any] = {}

    def add(kind, inputs=(), **params):
        nodes.append(Node(kind, tuple(inputs), params, draw(st.integers(0, devices - 1))))
        # The whole graph again: it is small, and state is part of what it means.
        state.clear()
        fed = {i: n.params["example"] for i, n in enumerate(nodes) if n.kind == "feed"}
        values[:] = evaluate(Spec(nodes, list(range(len(nodes))), devices), fed, state)

    def tensors():
        return [i for i, v in enumerate(values) if v is not None]

    for _ in range(draw(st.integers(1, 2))):
        value = draw(arrays())
        add("feed", example=value, dtype=value.dtype.name, shape=list(value.shape))
    add("constant", value=draw(arrays()))
    if draw(st.booleans()):
        add("variable", value=draw(arrays()), resource=draw(st.booleans()))
    for _ in range(draw(st.integers(1, max_nodes))):
        _draw_node(draw, add, values, tensors, state)
    fetches = draw(st.lists(st.sampled_from(tensors()), min_size=1, max_size=6, unique=True))
    return Spec([_without_example(n) for n in nodes], fetches, devices), {
        i: n.params["example"] for i, n in enumerate(nodes) if n.kind == "feed"
    }


def _without_example(node):
    params = {k: v for k, v in node.params.items() if k != "example"}
    return Node(node.kind, node.inputs, params, node.device)


def _draw_node(draw, add, values, tensors, state):
    x = draw(st.sampled_from(tensors()))
    value = values[x]
    choices = list(_ANY) + _TWO
    if value.ndim and value.size:
        choices += [k for k in _NEEDS_AN_AXIS if k != "halves" or value.shape[0] % 2 == 0]
    if value.ndim == 2 and value.shape[0] == value.shape[1] > 1:
        choices += ["plus_transposed"] * 3
    if state:
        choices += ["read", "assign", "assign_add"] * 2
    kind = draw(st.sampled_from(choices))
    if kind in ("read", "assign", "assign_add"):
        variable = draw(st.sampled_from(sorted(state)))
        if kind != "read" and not value.size:
            return
        add(kind, () if kind == "read" else (x,), variable=variable)
    elif kind in _TWO:
        _draw_pair(draw, add, values, tensors, kind, x)
    elif kind == "reshape":
        n = value.size
        add(kind, (x,), shape=draw(st.sampled_from([[n], [1, n], [n, 1], [-1], [1, -1, 1]]))
            if n else [0])  # fmt: skip
    elif kind == "cast":
        # A cast to the type it has would be the tensor itself.
        others = [d for d in DTYPES if d != value.dtype.name]
        add(kind, (x,), dtype=draw(st.sampled_from(others)))
    elif kind == "halves":
        add(kind, (x,), part=draw(st.integers(0, 1)))
    elif kind == "dot" and not value.size:
        return
    else:
        add(kind, (x,))


def _draw_pair(draw, add, values, tensors, kind, x):
    y = draw(st.sampled_from(tensors()))
    if values[y].dtype != values[x].dtype:
        add("cast", (y,), dtype=values[x].dtype.name)
        y = len(values) - 1
    a, b = values[x], values[y]
    if kind == "outer" and a.size * b.size > MAX_ELEMENTS:
        return
    if kind in ("join", "stack") and (a.size + b.size > MAX_ELEMENTS or not a.size or not b.size):
        return
    if kind in ("add", "subtract", "larger", "multiply"):
        try:
            size = np.broadcast(a, b).size
        except ValueError:
            add("sum", (y,))
            y, size = len(values) - 1, a.size
        if size > MAX_ELEMENTS:
            return
    add(kind, (x, y))
