"""Candidate samplers: some classes in place of all, for losses over very many of them.

A sampler draws `num_sampled` classes and says how often each of them, and each true class, was to
be expected in such a draw. With `unique` no class comes twice: draws that were there already are
thrown away, and how many that were decides what was to be expected.

The draws are TensorFlow's: the same random words (`stepscope.ops.math.random`), made into classes
in the same way, so that a seeded program samples the classes here that it samples there.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from stepscope.errors import InvalidArgumentError, NotFoundError
from stepscope.graph.build import apply_op
from stepscope.graph.dtypes import Array
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.math.philox import Philox
from stepscope.ops.math.random import node_stream, seed_attrs, unit_doubles, unit_floats

_BLOCKS_PER_SAMPLE: Final = 512
_LOWEST: Final = np.float32(np.finfo(np.float32).min)


class Candidates(NamedTuple):
    """What a sampler gives."""

    sampled_candidates: Tensor
    true_expected_count: Tensor
    sampled_expected_count: Tensor


# -- words -------------------------------------------------------------------------------------


class _Words:
    """The 32-bit words of a stretch of a stream, in order; some can be put back."""

    __slots__ = ("_made", "_place", "_stream")

    def __init__(self, stream: Philox) -> None:
        self._stream = stream
        self._made: Any = np.empty(0, np.uint32)
        self._place = 0

    def take(self, count: int) -> Any:
        end = self._place + count
        if end > self._made.size:
            more = self._stream.blocks(self._made.size // 4, -(-(end - self._made.size) // 4))
            self._made = np.concatenate([self._made, more.reshape(-1)])
        found = self._made[self._place : end]
        self._place = end
        return found

    def put_back(self, count: int) -> None:
        self._place -= count


def _below(words: _Words, limit: int, count: int, bits: int) -> Any:
    """`count` whole numbers below the limit, each as likely: what would favour some is redrawn."""
    number = np.uint64(limit)
    found = np.empty(0, np.uint64)
    while found.size < count:
        wanted = count - found.size
        if bits == 64:
            pairs = words.take(2 * wanted).reshape(-1, 2).astype(np.uint64)
            drawn = pairs[:, 0] | (pairs[:, 1] << np.uint64(32))
        else:
            drawn = words.take(wanted).astype(np.uint64)
        if limit & (limit - 1) == 0:
            return drawn & (number - np.uint64(1))
        found = np.concatenate([found, drawn[drawn >= _left_over(limit, bits)]])
    return found % number


def _left_over(limit: int, bits: int) -> np.uint64:
    """Draws below it are thrown away, so that the rest falls evenly into `limit` classes."""
    return np.uint64((2**bits - 1) % limit + 1)


# -- distributions -----------------------------------------------------------------------------


class _Distribution(Protocol):
    """Classes below `range_max`, each with its probability."""

    range_max: int

    def draw(self, words: _Words, count: int) -> Any:
        """So many draws, one after the other."""

    def probability(self, classes: Any) -> Any:
        """Of each class, as float32."""


class _Uniform:
    def __init__(self, range_max: int) -> None:
        self.range_max = range_max

    def draw(self, words: _Words, count: int) -> Any:
        return _below(words, self.range_max, count, 64).astype(np.int64)

    def probability(self, classes: Any) -> Any:
        return np.full(np.shape(classes), 1.0 / self.range_max, np.float32)


class _LogUniform:
    """Class n about as likely as 1 / (n + 1): what words are, by how frequent they are."""

    def __init__(self, range_max: int) -> None:
        self.range_max = range_max
        self._log_range = math.log(range_max + 1)

    def draw(self, words: _Words, count: int) -> Any:
        shares = unit_doubles(words.take(2 * count))
        return (np.exp(shares * self._log_range).astype(np.int64) - 1) % self.range_max

    def probability(self, classes: Any) -> Any:
        found = np.log((classes + 2.0) / (classes + 1.0)) / self._log_range
        return found.astype(np.float32)


class _FixedUnigram:
    """Given weights. A draw takes a bucket of equal width, which holds at most two classes."""

    def __init__(self, weights: Sequence[float]) -> None:
        self.range_max = len(weights)
        self._weights = np.array(weights, np.float32)
        self.with_weight = int(np.count_nonzero(self._weights))
        # Summed one after the other in single precision, as TensorFlow does.
        self._total = np.float32(0)
        for weight in self._weights:
            self._total += weight
        self._shares, self._others = _buckets(self._weights)

    def draw(self, words: _Words, count: int) -> Any:
        pairs = words.take(2 * count).reshape(-1, 2)
        if self.range_max & (self.range_max - 1):
            again = np.flatnonzero(pairs[:, 1] < _left_over(self.range_max, 32))
            if again.size:
                return self._with_redrawn(words, pairs, int(again[0]))
        return self._picked(pairs[:, 0], pairs[:, 1] % np.uint32(self.range_max))

    def _with_redrawn(self, words: _Words, pairs: Any, number: int) -> Any:
        """Of draw `number` the second word is thrown away, so that all later ones move on."""
        count = len(pairs)
        words.put_back(2 * (count - number))
        first = words.take(1)
        bucket = _below(words, self.range_max, 1, 32)
        before = self._picked(pairs[:number, 0], pairs[:number, 1] % np.uint32(self.range_max))
        this = self._picked(first, bucket)
        return np.concatenate([before, this, self.draw(words, count - number - 1)])

    def _picked(self, words: Any, buckets: Any) -> Any:
        here = unit_floats(words) < self._shares[buckets]
        return np.where(here, buckets, self._others[buckets]).astype(np.int64)

    def probability(self, classes: Any) -> Any:
        found = self._weights[classes] / self._total
        return found.astype(np.float32)


def _buckets(weights: Any) -> tuple[Any, Any]:
    """By Walker: of each bucket the share of its own class, and the class that has the rest."""
    count = len(weights)
    scaled = (weights * np.float32(count)).astype(np.float64) / float(
        np.cumsum(weights, dtype=np.float64)[-1]
    )
    shares, others = scaled.tolist(), list(range(count))
    low = [i for i, share in enumerate(shares) if share < 1.0]
    high = [i for i, share in enumerate(shares) if share >= 1.0]
    while low and high:
        little, much = low.pop(), high.pop()
        others[little] = much
        shares[much] -= 1.0 - shares[little]
        (low if shares[much] < 1.0 else high).append(much)
    for left in (*low, *high):
        shares[left], others[left] = 1.0, left
    return np.array(shares, np.float32), np.array(others, np.int64)


class _Learned:
    """By how often each class was a true one; once each to begin with."""

    def __init__(self, range_max: int) -> None:
        self.range_max = range_max
        self.lock = threading.Lock()
        self._counts = np.ones(range_max, np.int64)

    def draw(self, words: _Words, count: int) -> Any:
        upper = np.cumsum(self._counts)
        places = _below(words, int(upper[-1]), count, 32)
        return np.searchsorted(upper, places.astype(np.int64), side="right").astype(np.int64)

    def probability(self, classes: Any) -> Any:
        found = self._counts[classes].astype(np.float32) / np.float32(self._counts.sum())
        return found.astype(np.float32)

    def learn(self, classes: Array) -> None:
        np.add.at(self._counts, classes.reshape(-1), 1)


# -- drawing a batch ---------------------------------------------------------------------------


def _batch(source: _Distribution, words: _Words, count: int, unique: bool) -> tuple[Any, int]:
    """The classes drawn, and how many draws that took."""
    if not unique:
        return source.draw(words, count), count
    drawn = source.draw(words, count)
    while True:
        _, places = np.unique(drawn, return_index=True)
        if places.size >= count:
            chosen = np.sort(places)[:count]
            return drawn[chosen], int(chosen[-1]) + 1
        more = max(count - places.size, count // 4, 16)
        drawn = np.concatenate([drawn, source.draw(words, more)])


def _possible(source: _Distribution) -> int:
    """How many classes can be drawn at all."""
    if isinstance(source, _FixedUnigram):
        return source.with_weight
    return source.range_max


def _expected(probability: Any, count: int, tries: int) -> Any:
    """How often a class was to be expected in `count` different ones, found in so many tries."""
    if tries == count:
        return probability * np.float32(count)
    return -np.expm1(np.float32(tries) * np.log1p(-probability))


def _check_true_classes(classes: Array, number: int, range_max: int | None = None) -> None:
    if classes.ndim != 2:
        raise InvalidArgumentError.without_op("true_classes must be a matrix")
    if classes.shape[1] != number:
        raise InvalidArgumentError.without_op(
            f"true_classes must have num_true columns, expected: {classes.shape[1]} was: {number}"
        )
    outside = classes[(classes < 0) | (classes >= range_max)] if range_max is not None else ()
    for wrong in outside:
        raise InvalidArgumentError.without_op(
            f"`true_candidate` out of range [0, {range_max}), received {wrong}"
        )


def _kernel(make: Callable[[KernelNode], _Distribution]) -> Callable[[KernelNode], Kernel]:
    def factory(node: KernelNode) -> Kernel:
        count, unique = int(node.attr("num_sampled")), bool(node.attr("unique"))
        number, stream = int(node.attr("num_true")), node_stream(node)
        source: _Distribution = node.resources.get_or_create(
            "candidates", node.name, lambda: make(node)
        )
        if unique and count > _possible(source):
            raise InvalidArgumentError.without_op(
                f"Sampler's range is too small: num_sampled is {count}, range_max "
                f"{source.range_max}, of which {_possible(source)} can be drawn, and no class may "
                "come twice (unique=True)."
            )

        def sampled(classes: Array) -> tuple[Any, Any, Any]:
            words = _Words(stream.take(_BLOCKS_PER_SAMPLE * count))
            batch, tries = _batch(source, words, count, unique)
            return (
                batch,
                _expected(source.probability(classes), count, tries),
                _expected(source.probability(batch), count, tries),
            )

        def call(classes: Array) -> tuple[Any, Any, Any]:
            _check_true_classes(classes, number, source.range_max)
            if not isinstance(source, _Learned):
                return sampled(classes)
            with source.lock:
                found = sampled(classes)
                source.learn(classes)
            return found

        return Kernel(call)

    return factory


def _all_kernel(node: KernelNode) -> Kernel:
    count, number = int(node.attr("num_sampled")), int(node.attr("num_true"))

    def call(classes: Array) -> tuple[Any, Any, Any]:
        _check_true_classes(classes, number, count)
        once = np.ones(count, np.float32)
        return np.arange(count), np.ones(classes.shape, np.float32), once

    return Kernel(call)


def _hits_kernel(node: KernelNode) -> Kernel:
    number = int(node.attr("num_true"))

    def call(classes: Array, sampled: Array) -> tuple[Any, Any, Any]:
        _check_true_classes(classes, number)
        if sampled.ndim != 1:
            raise InvalidArgumentError.without_op(
                "sampled_candidates must be a vector, which is typically an output from "
                "CandidateSampler"
            )
        place_of = {int(c): place for place, c in enumerate(sampled)}
        hits = [
            (row, place_of[int(c)])
            for row, columns in enumerate(classes)
            for c in columns
            if int(c) in place_of
        ]
        rows, places = zip(*hits, strict=True) if hits else ((), ())
        weights = np.full(len(hits), _LOWEST, np.float32)
        return np.array(rows, np.int32), np.array(places, np.int64), weights

    return Kernel(call)


# -- fixed weights -----------------------------------------------------------------------------


def _fixed(node: KernelNode) -> _FixedUnigram:
    shards, shard = int(node.attr("num_shards")), int(node.attr("shard"))
    if not 0 <= shard < shards:
        raise InvalidArgumentError.without_op(
            f"shard ({shard}) must be at least 0 and less than num_shards ({shards})"
        )
    path = node.attr("vocab_file").decode()
    given = _file_weights(path) if path else list(node.attr("unigrams"))
    if not given:
        raise InvalidArgumentError.without_op(
            "Must provide either vocab_file or unigrams. At least one must be specified."
        )
    reserved, distortion = int(node.attr("num_reserved_ids")), node.attr("distortion")
    powers = np.power(np.array(given, np.float32), np.float32(distortion)).tolist()
    weights = [*[0.0] * reserved, *powers][shard::shards]
    if len(weights) != node.attr("range_max"):
        raise InvalidArgumentError.without_op(
            f"range_max is {node.attr('range_max')} but the vocabulary has {len(weights)} weights "
            "(reserved ids included)"
        )
    return _FixedUnigram(weights)


def _file_weights(path: str) -> list[float]:
    """The last column of each line."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise NotFoundError.without_op(f"{path}; {error.strerror}") from error
    weights = []
    for line in filter(None, lines):
        last = line.rsplit(",", 1)[-1]
        try:
            weights.append(float(last))
        except ValueError:
            raise InvalidArgumentError.without_op(
                f"Wrong vocabulary format at line: {line} ({path})"
            ) from None
    return weights


# -- the op types ------------------------------------------------------------------------------


def _shapes(c: ShapeContext) -> list[TensorShape]:
    classes = c.input(0).with_rank(2)
    count, number = int(c.attr("num_sampled")), int(c.attr("num_true"))
    return [TensorShape([count]), TensorShape([classes[0], number]), TensorShape([count])]


def _hits_shapes(c: ShapeContext) -> list[TensorShape]:
    c.input(0).assert_has_rank(2)
    c.input(1).assert_has_rank(1)
    return [TensorShape([None])] * 3


def _sampler(name: str, kernel: Callable[[KernelNode], Kernel], attrs: Sequence[str]) -> None:
    register(
        name,
        inputs=["true_classes: int64"],
        outputs=[
            "sampled_candidates: int64",
            "true_expected_count: float32",
            "sampled_expected_count: float32",
        ],
        attrs=[
            *("num_true: int", "num_sampled: int", "unique: bool"),
            *attrs,
            *("seed: int = 0", "seed2: int = 0"),
        ],
        shape=_shapes,
        kernel=kernel,
        stateful=True,
    )


def _range(node: KernelNode) -> int:
    return int(node.attr("range_max"))


_sampler(
    "UniformCandidateSampler", _kernel(lambda node: _Uniform(_range(node))), ["range_max: int"]
)
_sampler(
    "LogUniformCandidateSampler",
    _kernel(lambda node: _LogUniform(_range(node))),
    ["range_max: int"],
)
for _name in ("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"):
    _sampler(_name, _kernel(lambda node: _Learned(_range(node))), ["range_max: int"])
_sampler(
    "FixedUnigramCandidateSampler",
    _kernel(_fixed),
    [
        "range_max: int",
        "vocab_file: string = ''",
        "distortion: float = 1.0",
        "num_reserved_ids: int = 0",
        "num_shards: int = 1",
        "shard: int = 0",
        "unigrams: list(float) = []",
    ],
)
_sampler("AllCandidateSampler", _all_kernel, [])
register(
    "ComputeAccidentalHits",
    inputs=["true_classes: int64", "sampled_candidates: int64"],
    outputs=["indices: int32", "ids: int64", "weights: float32"],
    attrs=["num_true: int", "seed: int = 0", "seed2: int = 0"],
    shape=_hits_shapes,
    kernel=_hits_kernel,
)


# -- the functions -----------------------------------------------------------------------------


def _sample(
    op_type: str, true_classes: Any, seed: int | None, name: str | None, **attrs: Any
) -> Candidates:
    op = apply_op(op_type, true_classes, name=name, **attrs, **seed_attrs(seed))
    return Candidates(*op.values())


def uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Classes below `range_max`, all as likely.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     found = tf.nn.uniform_candidate_sampler([[1], [3]], 1, 4, True, 8, seed=5)
    ...     print(session.run(found.sampled_candidates))
    [7 0 1 4]
    """
    return _sample(
        "UniformCandidateSampler", true_classes, seed, name,
        num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
    )  # fmt: skip


def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Classes below `range_max`, low ones more often: words sorted by how frequent they are.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     found = tf.nn.log_uniform_candidate_sampler([[1]], 1, 4, True, 1000, seed=5)
    ...     print(session.run(found.sampled_candidates))
    [  1  39 129 106]
    """
    return _sample(
        "LogUniformCandidateSampler", true_classes, seed, name,
        num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
    )  # fmt: skip


def learned_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Classes as often as they were true ones in the runs before.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     found = tf.nn.learned_unigram_candidate_sampler([[1]], 1, 2, False, 3, seed=5)
    ...     print([session.run(found.true_expected_count)[0, 0].round(2) for _ in range(3)])
    [np.float32(0.67), np.float32(1.0), np.float32(1.2)]
    """
    return _sample(
        "LearnedUnigramCandidateSampler", true_classes, seed, name,
        num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
    )  # fmt: skip


def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Classes by weights, from `unigrams` or the last column of a file, to a power.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     found = tf.nn.fixed_unigram_candidate_sampler(
    ...         [[1]], 1, 2, False, 3, unigrams=[1.0, 2.0, 1.0])
    ...     print(session.run(found.true_expected_count))
    [[1.]]
    """
    return _sample(
        "FixedUnigramCandidateSampler", true_classes, seed, name,
        num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
        vocab_file=vocab_file, distortion=distortion, num_reserved_ids=num_reserved_ids,
        num_shards=num_shards, shard=shard, unigrams=list(unigrams),
    )  # fmt: skip


def all_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Every class: to compare with what samples give.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     found = tf.nn.all_candidate_sampler([[1]], 1, 3, True)
    ...     print(session.run(found.sampled_candidates))
    [0 1 2]
    """
    return _sample(
        "AllCandidateSampler", true_classes, seed, name,
        num_true=num_true, num_sampled=num_sampled, unique=unique,
    )  # fmt: skip


def compute_accidental_hits(
    true_classes: Any,
    sampled_candidates: Any,
    num_true: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Where a sampled class is a true one: the row, its place among the samples, and -FLT_MAX.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     rows, places, _ = tf.nn.compute_accidental_hits([[1], [7]], [5, 7, 2], 1)
    ...     print(*session.run([rows, places]))
    [1] [1]
    """
    op = apply_op(
        "ComputeAccidentalHits", true_classes, sampled_candidates, num_true=num_true, name=name,
        **seed_attrs(seed),
    )  # fmt: skip
    rows, places, weights = op.values()
    return rows, places, weights
