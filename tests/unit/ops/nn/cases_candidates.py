"""Candidate samplers, and the losses over what they draw."""

from __future__ import annotations

import numpy as np
from op_cases import Case

CASES: list[Case] = []
TRUE = np.array([[1, 3], [0, 7], [5, 1]], np.int64)
WEIGHTS = [3.0, 1.0, 0.5, 4.0, 2.0, 0.0, 1.5, 2.5, 0.25, 1.25]
NAMES = ("uniform", "log_uniform", "learned_unigram", "fixed_unigram")


def op_type(name):
    return f"{''.join(part.title() for part in name.split('_'))}CandidateSampler"


def sampler(name, count, unique, range_max, seed=5, true=TRUE, **more):
    def build(tf):
        function = getattr(tf.random, f"{name}_candidate_sampler")
        if name == "fixed_unigram" and "unigrams" not in more:
            more["unigrams"] = [WEIGHTS[i % 10] + i for i in range(range_max)]
        return list(function(true, 2, count, unique, range_max, seed=seed, **more))

    return build


def case(id, types, build, **more):
    # No gradient goes through a draw.
    CASES.append(Case(id, types, build, grad=False, **more))


for name in NAMES:
    for range_max in (8, 10, 1000):
        for unique in (True, False):
            case(f"{name}-{range_max}-{'unique' if unique else 'repeated'}", (op_type(name),),
                 sampler(name, 7, unique, range_max))  # fmt: skip
    case(f"{name}-all-of-it", (op_type(name),), sampler(name, 10, True, 10))
    case(f"{name}-many", (op_type(name),), sampler(name, 600, False, 3_000_000_007 if name in (
        "uniform", "log_uniform") else 3001, seed=11))  # fmt: skip
    case(f"{name}-too-small", (op_type(name),), sampler(name, 11, True, 10), fails="run",
         match="range is too small")  # fmt: skip

case(
    "fixed-powers",
    (op_type("fixed_unigram"),),
    sampler("fixed_unigram", 6, True, 12, distortion=0.75, num_reserved_ids=2, unigrams=WEIGHTS),
)
case(
    "fixed-shard",
    (op_type("fixed_unigram"),),
    sampler(
        "fixed_unigram",
        2,
        True,
        4,
        num_reserved_ids=1,
        num_shards=3,
        shard=0,
        unigrams=WEIGHTS,
        true=TRUE % 4,
    ),
)
case("fixed-too-few", (op_type("fixed_unigram"),), sampler(
    "fixed_unigram", 3, True, 11, unigrams=WEIGHTS), fails="run", match="range_max is")  # fmt: skip


def every(tf):
    return list(tf.random.all_candidate_sampler(TRUE, 2, 8, True, seed=5))


def every_of_one(tf):
    return list(tf.random.all_candidate_sampler(TRUE[:, :1], 1, 6, False))


def unsafe(tf):
    draw = tf.raw_ops.ThreadUnsafeUnigramCandidateSampler
    return list(draw(true_classes=TRUE, num_true=2, num_sampled=5, unique=True, range_max=9,
                     seed=3, seed2=4))  # fmt: skip


def unsafe_of_one(tf):
    draw = tf.raw_ops.ThreadUnsafeUnigramCandidateSampler
    return list(draw(true_classes=TRUE[:2, :1], num_true=1, num_sampled=9, unique=False,
                     range_max=9, seed=3, seed2=4))  # fmt: skip


def hits(tf):
    return list(tf.nn.compute_accidental_hits(TRUE, np.array([7, 2, 1, 9, 1], np.int64), 2))


def no_hits(tf):
    return list(tf.nn.compute_accidental_hits(TRUE, np.array([9, 8], np.int64), num_true=2))


case("all_candidate_sampler", ("AllCandidateSampler",), every)
case("ThreadUnsafe", ("ThreadUnsafeUnigramCandidateSampler",), unsafe)
case("all-of-one", ("AllCandidateSampler",), every_of_one)
case("ThreadUnsafe-of-one", ("ThreadUnsafeUnigramCandidateSampler",), unsafe_of_one)
case("compute_accidental_hits", ("ComputeAccidentalHits",), hits)
case("no_accidental_hits", ("ComputeAccidentalHits",), no_hits)
for name in NAMES:
    case(f"{name}-outside", (op_type(name),), sampler(name, 2, True, 7), fails="run",
         match=r"out of range [0, 7), received 7")  # fmt: skip
