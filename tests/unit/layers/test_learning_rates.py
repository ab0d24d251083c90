"""Learning rates by the step, beside TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as tf1

STEPS = [0, 1, 4, 5, 9, 10, 11, 25, 40]
RATES = {
    "exponential": lambda t, s: t.exponential_decay(0.1, s, 5, 0.9),
    "exponential-stairs": lambda t, s: t.exponential_decay(0.1, s, 5, 0.9, staircase=True),
    "natural-exp": lambda t, s: t.natural_exp_decay(0.1, s, 5, 0.9),
    "natural-exp-stairs": lambda t, s: t.natural_exp_decay(0.1, s, 5, 0.9, True, "mine"),
    "inverse-time": lambda t, s: t.inverse_time_decay(0.1, s, 5, 0.9),
    "inverse-time-stairs": lambda t, s: t.inverse_time_decay(0.1, s, 5, 0.9, staircase=True),
    "polynomial": lambda t, s: t.polynomial_decay(0.1, s, 10),
    "polynomial-power": lambda t, s: t.polynomial_decay(0.1, s, 10, 0.02, power=0.5),
    "polynomial-cycle": lambda t, s: t.polynomial_decay(0.1, s, 10, 0.02, cycle=True, name="p"),
    "piecewise": lambda t, s: t.piecewise_constant(s, [4, 10, 20], [0.4, 0.3, 0.2, 0.1]),
    "piecewise-one": lambda t, s: t.piecewise_constant_decay(s, [4], [0.4, 0.3]),
    "cosine": lambda t, s: t.cosine_decay(0.1, s, 10, alpha=0.1),
    "restarts": lambda t, s: t.cosine_decay_restarts(0.1, s, 5),
    "restarts-alike": lambda t, s: t.cosine_decay_restarts(0.1, s, 5, t_mul=1.0, m_mul=0.8),
    "restarts-lower": lambda t, s: t.cosine_decay_restarts(0.1, s, 5, 1.5, 0.8, 0.05),
    "linear-cosine": lambda t, s: t.linear_cosine_decay(0.1, s, 10, 2.0, 0.1, 0.01),
    "noisy": lambda t, s: t.noisy_linear_cosine_decay(0.1, s, 10, 0.5, 0.7, 2.0, 0.1, 0.01),
}


def by_step(tf: Any, rate: str) -> tuple[str, list[float]]:
    """What the tensor is called, and its value at each step."""
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.set_random_seed(7)
        step = tf.placeholder(tf.int64, [], name="step")
        found = RATES[rate](tf.train, step)
        return found.name, [session.run(found, {step: s}) for s in STEPS]


@pytest.mark.parametrize("rate", RATES)
def test_the_rate_at_every_step(tf: Any, rate: str) -> None:
    name, ours = by_step(tf1, rate)
    theirs_name, theirs = by_step(tf.compat.v1, rate)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-8)
    if not rate.startswith("piecewise"):  # TensorFlow's is called after its conditionals
        assert name == theirs_name


def test_boundaries_of_another_type_are_refused(tf: Any) -> None:
    for engine in (tf1, tf.compat.v1):
        with engine.Graph().as_default(), pytest.raises(ValueError, match="same dtype as x"):
            engine.train.piecewise_constant(engine.constant(1), [0.5], [1.0, 2.0])
        with engine.Graph().as_default(), pytest.raises(ValueError, match="same dtype"):
            engine.train.piecewise_constant(engine.constant(1), [1], [1.0, 2])
        with engine.Graph().as_default(), pytest.raises(ValueError, match="1 less than"):
            engine.train.piecewise_constant(engine.constant(1), [1], [1.0])


def test_without_a_step_nothing_decays() -> None:
    with pytest.raises(ValueError, match="cosine_decay needs a global_step"):
        tf1.train.cosine_decay(0.1, None, 10)
