"""Random numbers, seeded by graph and op seed as in TensorFlow.

Guarantees. Each random node of a session has a stream of its own, kept in the session's resources:
it goes on from run to run, and two sessions that run the same seeded graph draw the same numbers.
With no seed at all (`seed` and `seed2` both 0) the stream starts anywhere. Concurrent runs share a
node's stream: each draw takes the next stretch of it, whole, and none is handed out twice.

The streams are TensorFlow's (`philox`), read as its CPU kernels read them: a seeded program draws
the numbers here that it draws there. Integers, uniform numbers and orders are the same bit for bit;
normal ones to the last bit or so, as logarithm, sine and cosine come from another library.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import as_dtype, float32, int32, int64
from stepscope.graph.graph import Graph, name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, no_gradient, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.math.philox import Philox

DEFAULT_GRAPH_SEED: Final = 87654321
_MAX_INT32: Final = 2**31 - 1
_BLOCKS_PER_OUTPUT: Final = 256
"""So far apart TensorFlow reads for numbers that may have to be drawn again."""

# -- seeds -------------------------------------------------------------------------------------

_op_seeds: WeakKeyDictionary[Graph, int] = WeakKeyDictionary()
_op_seeds_lock = threading.Lock()


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """The (graph, op) seeds of a node made now; (None, None) if neither is set.

    With a graph seed and no op seed, the ops of a graph get 0, 1, 2, ... in the order made.
    """
    graph = get_default_graph()
    if graph.seed is None:
        if op_seed is None:
            return None, None
        seeds = DEFAULT_GRAPH_SEED, op_seed % _MAX_INT32
    else:
        if op_seed is None:
            with _op_seeds_lock:
                op_seed = _op_seeds.get(graph, 0)
                _op_seeds[graph] = op_seed + 1
        seeds = graph.seed % _MAX_INT32, op_seed % _MAX_INT32
    # A node with both at 0 means "no seed"; a user's pair of zeros must not.
    return (0, _MAX_INT32) if seeds == (0, 0) else seeds


def set_random_seed(seed: int | None) -> None:
    """Set the graph seed of the default graph; it holds for the ops made from now on."""
    get_default_graph().seed = seed


def seed_attrs(op_seed: int | None) -> dict[str, int]:
    seed, seed2 = get_seed(op_seed)
    return {"seed": seed or 0, "seed2": seed2 or 0}


class NodeStream:
    """One node's random numbers."""

    __slots__ = ("_lock", "_place")

    def __init__(self, seed: int, seed2: int) -> None:
        if seed == 0 and seed2 == 0:
            seed, seed2 = secrets.randbits(64), secrets.randbits(64)
        self._place = Philox(seed, seed2)
        self._lock = threading.Lock()

    def take(self, blocks: int) -> Philox:
        """So many blocks, for the caller alone."""
        with self._lock:
            place = self._place
            self._place = place.skipped(blocks)
        return place

    def for_outputs(self, count: int) -> Philox:
        """A stretch for so many numbers that are drawn: TensorFlow leaves plenty for each."""
        return self.take(_BLOCKS_PER_OUTPUT * count)


def node_stream(node: KernelNode) -> NodeStream:
    seed, seed2 = int(node.attr("seed")), int(node.attr("seed2"))
    stream: NodeStream = node.resources.get_or_create(
        "random", node.name, lambda: NodeStream(seed, seed2)
    )
    return stream


# -- numbers from the 32-bit words of blocks ---------------------------------------------------


def _words(stream: Philox, count: int) -> Any:
    """At least so many words, one after the other."""
    return stream.blocks(0, -(-count // 4)).reshape(-1)


def unit_floats(words: Any) -> Any:
    """In [0, 1): the low bits of each word are the digits of a number in [1, 2)."""
    bits = (words & np.uint32(0x7FFFFF)) | np.uint32(127 << 23)
    found = bits.view(np.float32)
    found -= np.float32(1)
    return found


def unit_doubles(words: Any) -> Any:
    """In [0, 1), of two words each."""
    pairs = words.reshape(-1, 2).astype(np.uint64)
    high = (pairs[:, 0] & np.uint64(0xFFFFF)) << np.uint64(32)
    return (high | pairs[:, 1] | np.uint64(1023 << 52)).view(np.float64) - 1.0


def _unit_halves(words: Any) -> Any:
    bits = (words & np.uint32(0x3FF)) | np.uint32(15 << 10)
    return bits.astype(np.uint16).view(np.float16) - np.float16(1)


_TINY: Final = 1e-7


def _normal_floats(words: Any) -> Any:
    """Two normal numbers of two words, by Box and Muller."""
    pairs = unit_floats(words).reshape(-1, 2)
    first = np.maximum(pairs[:, 0], np.float32(_TINY)).astype(np.float64)
    angle = (2 * np.pi * pairs[:, 1].astype(np.float64)).astype(np.float32).astype(np.float64)
    radius = np.sqrt(np.float32(-2) * np.log(first).astype(np.float32))
    found = np.empty(pairs.shape, np.float32)
    np.multiply(np.sin(angle).astype(np.float32), radius, out=found[:, 0])
    np.multiply(np.cos(angle).astype(np.float32), radius, out=found[:, 1])
    return found.reshape(-1)


def _normal_doubles(words: Any) -> Any:
    pairs = unit_doubles(words).reshape(-1, 2)
    radius = np.sqrt(-2.0 * np.log(np.maximum(pairs[:, 0], _TINY)))
    angle = 2 * np.pi * pairs[:, 1]
    found = np.empty(pairs.shape)
    np.multiply(np.sin(angle), radius, out=found[:, 0])
    np.multiply(np.cos(angle), radius, out=found[:, 1])
    return found.reshape(-1)


# -- RandomUniform, RandomStandardNormal, TruncatedNormal --------------------------------------


def _shape_argument(c: ShapeContext) -> TensorShape:
    c.input(0).assert_has_rank(1)
    return c.constant_as_shape(0)


def _float_kernel(
    node: KernelNode, draw: Callable[[Philox, int], Any], ns_per_value: float
) -> Kernel:
    """A kernel around `draw`, which gives at least so many numbers of a stream."""
    stream = node_stream(node)
    known = node.output_shapes[0].known
    dtype = node.output_dtypes[0].numpy
    count = node.output_shapes[0].num_elements()
    cost = None if count is None else 500 + ns_per_value * count

    def call(shape: Any, out: Any = None) -> Any:
        wanted = known if known is not None else tuple(int(d) for d in shape)
        size = math.prod(wanted)
        found = draw(stream.for_outputs(size), size)[:size].reshape(wanted)
        if out is None:
            return found.astype(dtype, copy=False)
        out[...] = found
        return out

    return Kernel(call, out="keyword", cost_ns=cost)


def _uniform_kernel(node: KernelNode) -> Kernel:
    kind = node.output_dtypes[0].name
    if kind == "float64":
        return _float_kernel(node, lambda s, n: unit_doubles(_words(s, 2 * n)), 12)
    made = _unit_halves if kind == "float16" else unit_floats
    return _float_kernel(node, lambda s, n: made(_words(s, n)), 6)


def _normal_kernel(node: KernelNode) -> Kernel:
    if node.output_dtypes[0].name == "float64":
        return _float_kernel(node, lambda s, n: _normal_doubles(_words(s, 2 * n)), 40)
    return _float_kernel(node, lambda s, n: _normal_floats(_words(s, n)), 30)


def _truncated_kernel(node: KernelNode) -> Kernel:
    if node.output_dtypes[0].name == "float64":
        return _float_kernel(node, lambda s, n: _truncated(s, n, 2, _normal_doubles), 60)
    return _float_kernel(node, lambda s, n: _truncated(s, n, 4, _normal_floats), 50)


def _truncated(stream: Philox, count: int, together: int, made: Callable[[Any], Any]) -> Any:
    """The first normal numbers below 2, `together` from each of the stretches of a stream."""
    groups = -(-count // together)
    found = np.empty((groups, together), np.float64 if together == 2 else np.float32)
    full = np.zeros(groups, np.intp)
    """How many of each group there are already."""
    apart = _BLOCKS_PER_OUTPUT * together // 4
    open_ones = np.arange(groups)
    block, several = 0, 2
    while len(open_ones):
        numbers = (open_ones * apart)[:, None] + np.arange(block, block + several)
        block += several
        values = made(stream.blocks_at(numbers.reshape(-1).astype(np.uint64)).reshape(-1))
        values = values.reshape(len(open_ones), -1)
        good = np.abs(values) < 2
        place = np.cumsum(good, axis=1) - 1 + full[open_ones][:, None]
        good &= place < together
        rows, columns = np.nonzero(good)
        found[open_ones[rows], place[rows, columns]] = values[rows, columns]
        full[open_ones] += good.sum(axis=1)
        open_ones = open_ones[full[open_ones] < together]
    return found.reshape(-1)


for _name, _kernel in (
    ("RandomUniform", _uniform_kernel),
    ("RandomStandardNormal", _normal_kernel),
    ("TruncatedNormal", _truncated_kernel),
):
    register(
        _name,
        inputs=["shape: T"],
        outputs=["output: dtype"],
        attrs=["seed: int = 0", "seed2: int = 0", "dtype: type", "T: type"],
        shape=_shape_argument,
        kernel=_kernel,
        stateful=True,
    )


# -- RandomUniformInt, Multinomial, RandomShuffle ----------------------------------------------


def _uniform_int_kernel(node: KernelNode) -> Kernel:
    stream = node_stream(node)
    dtype = node.output_dtypes[0].numpy

    def call(shape: Any, low: Any, high: Any) -> Any:
        if low >= high:
            raise InvalidArgumentError.without_op(f"Need minval < maxval, got {low} >= {high}")
        wanted = tuple(int(d) for d in shape)
        size = math.prod(wanted)
        place = stream.for_outputs(size)
        if dtype == np.int64:
            pairs = _words(place, 2 * size)[: 2 * size].reshape(-1, 2).astype(np.uint64)
            drawn = pairs[:, 0] | (pairs[:, 1] << np.uint64(32))
        else:
            drawn = _words(place, size)[:size].astype(np.uint64)
        drawn %= np.uint64(int(high) - int(low))
        # Numbers below 2**64 that wrap round to those from `low` on.
        drawn += np.uint64(int(low) % 2**64)
        return drawn.view(np.int64).astype(dtype).reshape(wanted)

    return Kernel(call)


register(
    "RandomUniformInt",
    inputs=["shape: T", "minval: Tout", "maxval: Tout"],
    outputs=["output: Tout"],
    attrs=["seed: int = 0", "seed2: int = 0", "Tout: type", "T: type"],
    shape=_shape_argument,
    kernel=_uniform_int_kernel,
    stateful=True,
)


def _multinomial_shape(c: ShapeContext) -> TensorShape:
    if c.input(0).rank not in (None, 2):
        raise ValueError(f"logits must be a matrix, but have shape {c.input(0).brief()}")
    samples = c.constant(1)
    return TensorShape(
        [c.input(0).with_rank(2).as_list()[0], None if samples is None else int(samples)]
    )


def _multinomial_kernel(node: KernelNode) -> Kernel:
    stream = node_stream(node)
    dtype = node.output_dtypes[0].numpy

    def call(logits: Any, num_samples: Any) -> Any:
        logits = logits.astype(np.float64)
        rows, classes = logits.shape
        if classes == 0:
            raise InvalidArgumentError.without_op("num_classes should be positive, got 0")
        count = int(num_samples)
        place = stream.for_outputs(2 * rows * -(-count // 4) * 4)
        draws = unit_doubles(_words(place, 2 * rows * count))[: rows * count]
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        bounds = np.cumsum(weights, axis=1)
        found = draws.reshape(rows, count) * bounds[:, -1:]
        result = np.empty(found.shape, dtype=dtype)
        for row in range(rows):
            result[row] = np.searchsorted(bounds[row], found[row], side="right")
            # A draw rounded up to the last bound would fall beyond the last likely class.
            np.minimum(result[row], np.flatnonzero(weights[row])[-1], out=result[row])
        return result

    return Kernel(call)


register(
    "Multinomial",
    inputs=["logits: T", "num_samples: int32"],
    outputs=["output: output_dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "T: type", "output_dtype: type = int64"],
    shape=_multinomial_shape,
    kernel=_multinomial_kernel,
    stateful=True,
)


def _shuffle_kernel(node: KernelNode) -> Kernel:
    stream = node_stream(node)

    def call(x: Any) -> Any:
        if x.ndim == 0 or len(x) < 2:
            return np.array(x)
        size = len(x)
        words = _words(stream.take(-(-(size - 1) // 4)), size - 1)[: size - 1]
        swaps = (words % np.arange(size, 1, -1, dtype=np.uint32)).tolist()
        order = list(range(size))
        for i, further in enumerate(swaps):
            j = i + further
            order[i], order[j] = order[j], order[i]
        return x[np.array(order)]

    return Kernel(call)


register(
    "RandomShuffle",
    inputs=["value: T"],
    outputs=["output: T"],
    attrs=["seed: int = 0", "seed2: int = 0", "T: type"],
    shape=lambda c: c.input(0),
    kernel=_shuffle_kernel,
    stateful=True,
)


# -- what users call ---------------------------------------------------------------------------


def _shape_tensor(shape: Any) -> Tensor:
    empty = isinstance(shape, (list, tuple)) and not shape
    return convert_to_tensor(shape, int32 if empty else None, "shape")


def _op(op_type: str, *args: Any, **attrs: Any) -> Tensor:
    return apply_op(op_type, *args, **attrs).values()[0]


def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Evenly distributed values in [minval, maxval); integers need a maxval."""
    kind = as_dtype(dtype)
    if kind not in (as_dtype("float16"), float32, as_dtype("float64"), int32, int64):
        raise ValueError(
            f"random_uniform() has float16, float32, float64, int32 and int64, not {kind.name}."
        )
    if maxval is None:
        if kind.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {kind.name}")
        maxval = 1
    with name_scope(name, "random_uniform", [shape, minval, maxval]) as scope:
        shape = _shape_tensor(shape)
        from_zero = isinstance(minval, int) and minval == 0
        to_one = isinstance(maxval, int) and maxval == 1
        if not from_zero or not to_one or kind.is_integer:
            minval = convert_to_tensor(minval, kind, "min")
            maxval = convert_to_tensor(maxval, kind, "max")
        seeds = seed_attrs(seed)
        if kind.is_integer:
            return _op("RandomUniformInt", shape, minval, maxval, **seeds, name=scope)
        result = _op("RandomUniform", shape, dtype=kind, **seeds)
        if from_zero:
            return result if to_one else _op("Mul", result, maxval)
        width = _op("Sub", maxval, minval, name="sub")
        return _op("AddV2", _op("Mul", result, width, name="mul"), minval, name=scope)


def _normal(
    op_type: str,
    default_name: str,
    shape: Any,
    mean: Any,
    stddev: Any,
    dtype: Any,
    seed: int | None,
    name: str | None,
) -> Tensor:
    kind = as_dtype(dtype)
    with name_scope(name, default_name, [shape, mean, stddev]) as scope:
        shape = _shape_tensor(shape)
        mean = convert_to_tensor(mean, kind, "mean")
        stddev = convert_to_tensor(stddev, kind, "stddev")
        values = _op(op_type, shape, dtype=kind, **seed_attrs(seed))
        return _op("AddV2", _op("Mul", values, stddev, name="mul"), mean, name=scope)


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed values."""
    return _normal("RandomStandardNormal", "random_normal", shape, mean, stddev, dtype, seed, name)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed values, drawn again where more than two deviations from the mean."""
    return _normal("TruncatedNormal", "truncated_normal", shape, mean, stddev, dtype, seed, name)


def multinomial(
    logits: Any,
    num_samples: Any,
    seed: int | None = None,
    name: str | None = None,
    output_dtype: Any = None,
) -> Tensor:
    """For each row of `logits`, `num_samples` classes drawn with those log-probabilities."""
    return _categorical("multinomial", logits, num_samples, seed, name, output_dtype)


def categorical(
    logits: Any,
    num_samples: Any,
    dtype: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`multinomial`, under its later name."""
    return _categorical("categorical", logits, num_samples, seed, name, dtype)


def _categorical(
    default_name: str, logits: Any, num_samples: Any, seed: int | None, name: Any, dtype: Any
) -> Tensor:
    with name_scope(name, default_name, [logits]):
        logits = convert_to_tensor(logits, name="logits")
        kind = int64 if dtype is None else as_dtype(dtype)
        return _op("Multinomial", logits, num_samples, output_dtype=kind, **seed_attrs(seed))


def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """The value with its first axis in random order."""
    return _op("RandomShuffle", value, **seed_attrs(seed), name=name)


no_gradient(
    "Multinomial", "RandomShuffle", "RandomStandardNormal", "RandomUniform", "TruncatedNormal",
)  # fmt: skip
