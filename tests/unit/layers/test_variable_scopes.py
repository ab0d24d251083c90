"""Names of scopes that are entered again, and how variables are got, here and on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from both_engines import both

pytestmark = pytest.mark.tensorflow


def names(tf: Any, scope: Any) -> list[str]:
    """The scope's own names, and that of an op made in it."""
    return [scope.name, scope.original_name_scope, tf.no_op().name]


def entered_by_object(tf: Any) -> Any:
    found = []
    with tf.variable_scope("a") as a:
        with tf.variable_scope(None, "x") as x:
            found.append(names(tf, x))
        with tf.variable_scope(a) as again:
            found.append(names(tf, again))
            with tf.variable_scope(None, "x") as x:
                found.append(names(tf, x))
            with tf.variable_scope("y") as y:
                found.append(names(tf, y))
        # What was opened in between does not count here.
        for name in "xy":
            with tf.variable_scope(None, name) as inner:
                found.append(names(tf, inner))
    with tf.variable_scope(a) as again, tf.variable_scope(None, "x") as x:
        found.append([names(tf, again), names(tf, x)])
    return found


def entered_by_name(tf: Any) -> Any:
    found = []
    for _ in range(2):
        with tf.variable_scope("a") as a, tf.variable_scope(None, "x") as x:
            found.append([names(tf, a), names(tf, x)])
    with tf.variable_scope(None, "a") as a:
        found.append(names(tf, a))
    with tf.variable_scope("a/b") as b:
        found.append(names(tf, b))
    with tf.variable_scope(b) as again:
        found.append(names(tf, again))
    return found


def without_name_scopes(tf: Any) -> Any:
    found = []
    with tf.variable_scope("b") as b:
        with tf.variable_scope(b, auxiliary_name_scope=False) as again:
            found.append(names(tf, again))
        with tf.variable_scope("z", auxiliary_name_scope=False) as z:
            found.append(names(tf, z))
        with tf.name_scope(b.original_name_scope):
            found.append(tf.no_op().name)
    return found


def one_block_twice(tf: Any) -> Any:
    found = []
    for block in (tf.variable_scope("a"), tf.variable_scope(None, "d")):
        for name in "vw":
            with block as scope:
                found.append([*names(tf, scope), tf.get_variable(name, []).name])
    block = tf.name_scope("n")
    for _ in range(2):
        with block as prefix:
            found.append([prefix, tf.no_op().name])
    return found


def what_is_inherited(tf: Any) -> Any:
    found = []
    with tf.variable_scope("a") as a:
        tf.get_variable("v", [])
    with tf.variable_scope("r", reuse=True):
        with tf.variable_scope(a) as again:
            found.append(again.reuse)
        with tf.variable_scope("q") as inner:
            found.append(inner.reuse)
    with tf.variable_scope(a, reuse=True) as again:
        found.append([again.reuse, tf.get_variable("v", []).name])
    with tf.variable_scope("a", reuse=False) as again:
        found.append(again.reuse)
    with tf.variable_scope("b", dtype=tf.float64) as b:
        pass
    with tf.variable_scope("c"), tf.variable_scope(b):
        found.append(
            [tf.get_variable("w", []).name, tf.get_variable("u", []).dtype.base_dtype.name]
        )
    return found


@pytest.mark.parametrize(
    "program",
    [entered_by_object, entered_by_name, without_name_scopes, one_block_twice, what_is_inherited],
    ids=lambda f: f.__name__,
)
def test_scopes(tf: Any, program: Callable[[Any], Any]) -> None:
    ours, theirs = both(tf, program)
    assert ours == theirs
    assert isinstance(ours, list)


def test_what_a_custom_getter_is_given(tf: Any) -> None:
    def program(engine: Any) -> Any:
        seen = []

        def note(getter: Any, *args: Any, **more: Any) -> Any:
            plain = {k: str(v) for k, v in more.items()}
            # The two belong to strategies of distribution; AUTO_REUSE is each engine's own object.
            del plain["synchronization"], plain["aggregation"]
            plain["reuse"] = plain["reuse"].rpartition(".")[2]
            seen.append([args, plain])
            return getter(*args, **more)

        with engine.variable_scope("s", custom_getter=note):
            engine.get_variable("v", [2])
            engine.get_variable("w", initializer=1.0, trainable=False)
            engine.get_variable("u", [1], engine.int32, collections=["q"])
        for reuse in (True, engine.AUTO_REUSE):
            with engine.variable_scope("s", reuse=reuse, custom_getter=note):
                engine.get_variable("v", [2])
        return seen

    ours, theirs = both(tf, program)
    assert ours == theirs
    assert ours[0][1]["name"] == "s/v"


def test_custom_getters(tf: Any) -> None:
    def every(
        getter: Any, name: Any, shape: Any, dtype: Any, initializer: Any, regularizer: Any,
        reuse: Any, trainable: Any, collections: Any, caching_device: Any, partitioner: Any,
        validate_shape: Any, use_resource: Any, synchronization: Any, aggregation: Any,
    ) -> Any:  # fmt: skip
        return getter(
            name, shape, dtype, initializer, regularizer, reuse, trainable, collections,
            caching_device, partitioner, validate_shape, use_resource,
            synchronization=synchronization, aggregation=aggregation,
        )  # fmt: skip

    def nested(engine: Any) -> Any:
        def outer(getter: Any, name: str, **more: Any) -> Any:
            return getter(f"{name}_out", **more)

        def inner(getter: Any, name: str, **more: Any) -> Any:
            return getter(f"{name}_in", **more)

        def own(getter: Any, name: str, **more: Any) -> Any:
            return getter(f"{name}_own", **more)

        with (
            engine.variable_scope("s", custom_getter=outer),
            engine.variable_scope("t", custom_getter=inner),
        ):
            return [
                engine.get_variable("v", [2]).name,
                engine.get_variable("w", [2], custom_getter=own).name,
            ]

    def all_arguments(engine: Any) -> Any:
        with engine.variable_scope("all", custom_getter=every):
            return engine.get_variable("v", [2]).name

    for case in (nested, all_arguments):
        ours, theirs = both(tf, case)
        assert ours == theirs
    assert both(tf, nested)[0] == ["s/t/v_in_out:0", "s/t/w_own:0"]


INITIALIZERS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda tf: tf.get_variable("v", initializer=lambda: tf.ones([2, 3], tf.float64) * 4),
    "array": lambda tf: tf.get_variable("v", initializer=lambda: np.ones([2, 3])),
    "list": lambda tf: tf.get_variable("v", initializer=lambda: [1, 2]),
    "another dtype": lambda tf: tf.get_variable(
        "v", dtype=tf.float64, initializer=lambda: tf.ones([2])
    ),
    "defaults": lambda tf: tf.get_variable(
        "v", initializer=lambda shape=(3,), dtype=tf.float32: tf.ones(shape, dtype)
    ),
    "partial": lambda tf: tf.get_variable("v", initializer=partial(tf.ones, [4])),
    "with a shape": lambda tf: tf.get_variable(
        "v", [2], initializer=lambda shape, dtype: tf.ones(shape, dtype)
    ),
    "takes no shape": lambda tf: tf.get_variable("v", [2], initializer=lambda: tf.ones([2])),
    "needs a shape": lambda tf: tf.get_variable(
        "v", initializer=lambda shape, dtype: tf.ones(shape, dtype)
    ),
    "zeros": lambda tf: tf.get_variable("v", initializer=tf.zeros_initializer()),
    "none": lambda tf: tf.get_variable("v"),
    "half a shape": lambda tf: tf.get_variable("v", [None, 2]),
    "value of another dtype": lambda tf: tf.get_variable(
        "v", dtype=tf.float64, initializer=tf.ones([2])
    ),
}


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers_without_a_shape(tf: Any, name: str) -> None:
    def program(engine: Any) -> Any:
        made = INITIALIZERS[name](engine)
        ops = engine.get_default_graph().get_operations()
        nodes = [op.name for op in ops if op.name.startswith("v/Initializer")]
        with engine.Session() as session:
            session.run(made.initializer)
            value = session.run(made)
        return made.name, str(made.shape), made.dtype.base_dtype.name, nodes, value.tolist()

    ours, theirs = both(tf, program)
    assert ours == theirs
