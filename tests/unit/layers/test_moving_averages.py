"""Moving averages, beside TensorFlow's: names, values, and what a Saver restores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscope.tf1 as tf1
from stepscope.tf1.python.training import moving_averages as our_functions


def averaged(tf: Any, resource: bool, **options: Any) -> dict[str, Any]:
    """Names, values over five steps and what would be restored, of two variables and a tensor."""
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        with tf.variable_scope("net", use_resource=resource):
            w = tf.get_variable("w", initializer=np.array([1.0, -2.0], np.float32))
            kept = tf.get_variable("kept", initializer=3.0, trainable=False)
        step = tf.train.get_or_create_global_step()
        loss = tf.reduce_sum(tf.square(w), name="loss")
        if options.pop("counted", False):
            options["num_updates"] = step
        averages = tf.train.ExponentialMovingAverage(0.8, **options)
        before = averages.average_name(w)
        update = averages.apply([w, loss])
        move = tf.group(tf.assign_add(w, [0.5, 0.25]), tf.assign_add(step, 1))
        session.run(tf.global_variables_initializer())
        values = []
        for _ in range(5):
            session.run(update)
            session.run(move)
            values.append(session.run([averages.average(w), averages.average(loss)]))
        restored = averages.variables_to_restore([w, kept])
        return {
            "before": before,
            "update": update.name,
            "names": [averages.average_name(w), averages.average_name(loss)],
            "all": sorted(v.name for v in tf.global_variables()),
            "trained": [v.name for v in tf.trainable_variables()],
            "averaged": [v.name for v in tf.moving_average_variables()],
            "restored": {name: v.name for name, v in restored.items()},
            "every": sorted(averages.variables_to_restore()),
            "other": averages.average(kept),
            "values": values,
        }


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize(
    "options",
    [{}, {"counted": True}, {"zero_debias": True}, {"name": "avg"}],
    ids=["plain", "counted", "zero-debias", "named"],
)
def test_averages_are_tensorflows(tf: Any, resource: bool, options: dict[str, Any]) -> None:
    ours, theirs = averaged(tf1, resource, **options), averaged(tf.compat.v1, resource, **options)
    for (w, loss), (their_w, their_loss) in zip(
        ours.pop("values"), theirs.pop("values"), strict=True
    ):
        np.testing.assert_allclose(w, their_w, rtol=1e-5)
        np.testing.assert_allclose(loss, their_loss, rtol=1e-5)
    assert ours == theirs


def test_a_saver_loads_averages_into_their_variables(tmp_path: Path) -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        w = tf1.get_variable("w", initializer=1.0)
        averages = tf1.train.ExponentialMovingAverage(0.5)
        update = averages.apply([w])
        session.run(tf1.global_variables_initializer())
        session.run(w.assign(5.0))
        session.run(update)
        path = tf1.train.Saver().save(session, str(tmp_path / "model"))
    with tf1.Graph().as_default(), tf1.Session() as session:
        w = tf1.get_variable("w", initializer=0.0)
        averages = tf1.train.ExponentialMovingAverage(0.5)
        tf1.train.Saver(averages.variables_to_restore()).restore(session, path)
        assert session.run(w) == 3.0


def test_whole_numbers_have_no_average() -> None:
    with tf1.Graph().as_default(), pytest.raises(TypeError, match="half, float, or double"):
        tf1.train.ExponentialMovingAverage(0.5).apply([tf1.Variable(1, name="n")])


def test_functions_of_the_module(tf: Any) -> None:
    from tensorflow.python.training import moving_averages as their_functions

    found = []
    for engine, functions in ((tf1, our_functions), (tf.compat.v1, their_functions)):
        with engine.Graph().as_default() as graph, engine.Session(graph=graph) as session:
            x = engine.placeholder(engine.float32, [], name="x")
            v = engine.get_variable("v", [], initializer=engine.zeros_initializer())
            moved = functions.assign_moving_average(v, x, 0.75)
            mean = functions.weighted_moving_average(x, 0.75, x * 2.0, name="mean")
            session.run(engine.global_variables_initializer())
            values = [session.run([moved, mean], {x: n}) for n in (1.0, 5.0, 2.0)]
            found.append((np.array(values), sorted(v.name for v in engine.global_variables())))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    assert found[0][1] == found[1][1]
