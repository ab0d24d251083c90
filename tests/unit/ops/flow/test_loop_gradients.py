"""Gradients through loops against TensorFlow's: lowered as TensorFlow 1 had them, and functional.

TensorFlow differentiates twice through functional loops alone, so the second derivatives are
compared with those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from op_cases import assert_same_value

import stepscope.tf1 as tf1
from stepscope.metadata import RunMetadata
from stepscope.options import ConfigProto, RunOptions, ThreadPoolOptionProto

Program = Callable[[Any], tuple[Any, list[Any]]]
"""Gives what is differentiated, and with respect to what."""


def power(tf: Any) -> Any:
    x = tf.constant([3.0, -2.0])
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * x), (0, tf.ones([2])))
    return y, [x]


def none_at_all(tf: Any) -> Any:
    x, w = tf.constant(3.0), tf.constant(2.0)
    _, y = tf.while_loop(lambda i, _: i < 0, lambda i, y: (i + 1, y * w), (0, x))
    return y * y, [x, w]


def limited(tf: Any) -> Any:
    x = tf.constant(1.1, tf.float64)
    y = tf.while_loop(lambda y: y < 100.0, lambda y: y * y + x, [x], maximum_iterations=4)
    return y, [x]


def untouched(tf: Any) -> Any:
    """One variable stays what it is, and one changes places with another."""
    x, w = tf.constant(0.5), tf.constant([1.5, 2.5])
    made = tf.while_loop(
        lambda i, *_: i < 3,
        lambda i, a, b, c: (i + 1, b * a, a, c),
        (0, w * x, w, x),
        parallel_iterations=1,
    )
    return made[1] + made[2] * made[3], [x, w]


def grows(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    shapes = (tf.TensorShape([]), tf.TensorShape([None]))
    _, y = tf.while_loop(
        lambda i, _: i < 2, lambda i, y: (i + 1, tf.concat([y, y * x[0]], 0)), (0, x), shapes
    )
    return y * y, [x]


def of_variables(use_resource: bool) -> Program:
    def build(tf: Any) -> Any:
        x = tf.constant([[0.5, -1.0, 2.0]])
        w = tf.get_variable(
            "w", initializer=np.eye(3, dtype=np.float32) * 0.5 + 0.1, use_resource=use_resource
        )
        b = tf.get_variable("b", initializer=np.float32([0.1, 0.2, 0.3]), use_resource=use_resource)
        _, h = tf.while_loop(
            lambda i, _: i < 4, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w) + b)), (0, x)
        )
        return h, [x, w, b]

    return build


def chosen_rows(tf: Any) -> Any:
    """Rows of a table: gradients of some rows only."""
    table = tf.get_variable(
        "t", initializer=np.arange(8, dtype=np.float32).reshape(4, 2), use_resource=False
    )
    _, y = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, y: (i + 1, y * 0.5 + tf.gather(table, [i, i + 1])),
        (0, tf.zeros([2, 2])),
    )
    return y * y, [table]


def branches(tf: Any) -> Any:
    x, w = tf.constant([0.5, 0.75]), tf.constant(0.7)

    def body(i: Any, y: Any) -> Any:
        def even() -> Any:
            return tf.cond(tf.less(i, 2), lambda: tf.sin(y) * w, lambda: y * x)

        return i + 1, tf.cond(tf.equal(i % 2, 0), even, lambda: tf.tanh(y + w))

    _, y = tf.while_loop(lambda i, _: i < 5, body, (0, x))
    return y, [x, w]


def in_each_other(tf: Any) -> Any:
    x, w = tf.constant([1.5, 0.5]), tf.constant([0.3, 0.7])

    def body(i: Any, y: Any) -> Any:
        def inner(j: Any, z: Any) -> Any:
            grown = tf.cast(j + i + 1, tf.float32)
            z = tf.cond(tf.equal(j % 2, 0), lambda: z * w + tf.sin(z) * grown, lambda: z * x)
            return j + 1, z

        _, z = tf.while_loop(lambda j, _: j < i + 2, inner, (0, y * x))
        return i + 1, tf.tanh(z) + y * w

    _, y = tf.while_loop(lambda i, _: i < 3, body, (0, x))
    return y, [x, w]


def in_a_branch(taken: bool) -> Program:
    def build(tf: Any) -> Any:
        x, w = tf.constant(1.3), tf.constant(0.1)
        yes = tf.placeholder_with_default(taken, [])

        def loop() -> Any:
            return tf.while_loop(lambda v: v < 5.0, lambda v: v * x + v * v * w, [x])

        return tf.cond(yes, loop, lambda: x * x) * x, [x, w]

    return build


def arrays(tf: Any) -> Any:
    x = tf.constant(np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3))
    w = tf.constant(np.eye(3, dtype=np.float32) + 0.1)
    given = tf.TensorArray(tf.float32, 4).unstack(x)

    def body(i: Any, h: Any, made: Any) -> Any:
        h = tf.tanh(tf.matmul(h, w) + given.read(i))
        return i + 1, h, made.write(i, h)

    start = (0, tf.zeros([1, 3]), tf.TensorArray(tf.float32, 4))
    _, h, made = tf.while_loop(lambda i, *_: i < 4, body, start)
    return tf.reduce_sum(made.stack() ** 2) + tf.reduce_sum(h), [x, w]


def reads_what_it_wrote(tf: Any) -> Any:
    x = tf.constant(0.7)
    start = tf.TensorArray(tf.float32, 5, clear_after_read=False).write(0, x)

    def body(i: Any, made: Any) -> Any:
        return i + 1, made.write(i, made.read(i - 1) * x + tf.sin(made.read(0)))

    _, made = tf.while_loop(lambda i, _: i < 5, body, (1, start))
    return made.stack(), [x]


def some_written(tf: Any) -> Any:
    """An array that is written to in one branch, in a loop in a loop."""
    x = tf.constant([0.5, 0.25])

    def body(i: Any, y: Any) -> Any:
        def inner(j: Any, made: Any) -> Any:
            value = y * x * tf.cast(j, tf.float32)
            return j + 1, made.write(
                j, tf.cond(tf.equal(i, j), lambda: tf.sin(value), lambda: value)
            )

        array = tf.TensorArray(tf.float32, 3, element_shape=[2])
        _, array = tf.while_loop(lambda j, _: j < 3, inner, (0, array))
        return i + 1, tf.reduce_sum(array.stack(), 0) + y

    _, y = tf.while_loop(lambda i, _: i < 3, body, (0, tf.ones([2])))
    return y, [x]


PROGRAMS: dict[str, Program] = {
    "power": power,
    "none_at_all": none_at_all,
    "limited": limited,
    "untouched": untouched,
    "grows": grows,
    "of_variables": of_variables(False),
    "of_resource_variables": of_variables(True),
    "chosen_rows": chosen_rows,
    "branches": branches,
    "in_each_other": in_each_other,
    "in_a_branch": in_a_branch(True),
    "in_a_branch_not_taken": in_a_branch(False),
    "arrays": arrays,
    "reads_what_it_wrote": reads_what_it_wrote,
    "some_written": some_written,
}


WRONG_ON_TENSORFLOW = {
    "grows": "fails: paddings must be non-negative",
    "untouched": "leaves out the gradient of the variable that the body gives back as it is",
}
"""What its functional loops do with these, at 2.21."""


def outcome(tf: Any, program: Program, order: int, **session: Any) -> list[Any]:
    """The value, and its derivatives up to an order."""
    with tf.Graph().as_default(), tf.Session(**session) as made:
        y, xs = program(tf)
        fetches = [y]
        for _ in range(order):
            slopes = [tf.convert_to_tensor(g) for g in tf.gradients(y, xs)]
            fetches += slopes
            y = tf.add_n([tf.reduce_sum(g * g) for g in slopes])
        made.run(tf.global_variables_initializer())
        return list(made.run(fetches))


@contextmanager
def functional_loops(tf: Any) -> Iterator[None]:
    tf.enable_control_flow_v2()
    try:
        yield
    finally:
        tf.disable_control_flow_v2()


@pytest.mark.tensorflow
@pytest.mark.parametrize("program", PROGRAMS)
def test_first_derivatives_are_those_of_lowered_loops(tf: Any, program: str) -> None:
    compare(outcome(tf1, PROGRAMS[program], 1), outcome(tf, PROGRAMS[program], 1))


@pytest.mark.tensorflow
@pytest.mark.parametrize("program", sorted(PROGRAMS.keys() - WRONG_ON_TENSORFLOW.keys()))
def test_second_derivatives_are_those_of_functional_loops(tf: Any, program: str) -> None:
    with functional_loops(tf):
        expected = outcome(tf, PROGRAMS[program], 2)
    compare(outcome(tf1, PROGRAMS[program], 2), expected)


def compare(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        assert_same_value(ours, theirs, 1e-3, f"fetch {number}")


def test_second_derivatives_where_tensorflow_has_none() -> None:
    """y = [x0, x1, x0 x0, x0 x1, ...] squared, and a polynomial in x and w: by hand."""
    x0, x1 = 1.0, 2.0
    *_, slope, bend = outcome(tf1, grows, 2)
    # Of each x: its square times 1 + 2 x0^2 + x0^4.
    first = [2 * x0 + 8 * x0**3 + 6 * x0**5 + x1**2 * (4 * x0 + 4 * x0**3),
             2 * x1 * (1 + 2 * x0**2 + x0**4)]  # fmt: skip
    mixed = 2 * x1 * (4 * x0 + 4 * x0**3)
    second = [2 * first[0] * (2 + 24 * x0**2 + 30 * x0**4 + x1**2 * (4 + 12 * x0**2))
              + 2 * first[1] * mixed,
              2 * first[0] * mixed + 2 * first[1] * 2 * (1 + 2 * x0**2 + x0**4)]  # fmt: skip
    assert slope.tolist() == pytest.approx(first)
    assert bend.tolist() == pytest.approx(second)
    x, w = 0.5, np.array([1.5, 2.5])
    _, along_x, along_w, *_ = outcome(tf1, untouched, 2)
    assert along_x == pytest.approx(3 * x**2 * (w**5 + w**3).sum())
    assert along_w.tolist() == pytest.approx((x**3 * (5 * w**4 + 3 * w**2)).tolist())


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_pool_gives_the_same(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    from stepscope.runtime.plan import plan

    expected = outcome(tf1, PROGRAMS[program], 2)
    monkeypatch.setattr(plan, "EXPENSIVE_NS", -1)
    pools = ConfigProto(session_inter_op_thread_pool=[ThreadPoolOptionProto(num_threads=3)])
    compare(outcome(tf1, PROGRAMS[program], 2, config=pools), expected)


def test_third_derivatives() -> None:
    def cube(tf: Any) -> Any:
        x = tf.constant(3.0)
        y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * x), (0, 1.0))[1]
        for _ in range(2):
            (y,) = tf.gradients(y, x)
        return y, [x]

    assert outcome(tf1, cube, 1) == [18.0, 6.0]


def test_a_loop_without_back_prop_has_no_gradients(tf: Any) -> None:
    for engine in (tf1, tf):
        with engine.Graph().as_default():
            x = engine.constant(2.0)
            _, y = engine.while_loop(
                lambda i, _: i < 2, lambda i, y, x=x: (i + 1, y * x), (0, x), back_prop=False
            )
            assert engine.gradients(y, x) == [None]
            assert engine.gradients(y + x, x) != [None]


def test_gradients_made_inside_of_a_loop() -> None:
    """Newton's method: in each iteration the gradients of that iteration."""
    with tf1.Graph().as_default(), tf1.Session() as session:
        a = tf1.constant(2.0)

        def step(i: object, x: Any) -> Any:
            y = x * x - a
            return i + 1, x - y / tf1.gradients(y, x)[0]  # type: ignore[operator]

        _, root = tf1.while_loop(lambda i, _: i < 5, step, (0, tf1.constant(1.0)))
        assert session.run(root) == pytest.approx(2**0.5)

        def captured(i: object, total: Any) -> Any:
            (slope,) = tf1.gradients(a * a * total, a)
            return i + 1, slope  # type: ignore[operator]

        _, made = tf1.while_loop(lambda i, _: i < 3, captured, (0, tf1.constant(1.0)))
        assert session.run(made) == 64.0


def test_a_run_without_gradients_executes_nothing_of_them() -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        y, xs = arrays(tf1)
        plain = RunMetadata()
        full = RunOptions(trace_level=RunOptions.FULL_TRACE)
        before = session.run(y, options=full, run_metadata=plain)
        tf1.gradients(y, xs)
        after = RunMetadata()
        assert session.run(y, options=full, run_metadata=after) == before
        assert sorted(after.ops.name) == sorted(plain.ops.name)


def test_what_is_kept_for_the_way_back_is_let_go_on_it() -> None:
    """Of each iteration one array: the peak is that of all of them, and nothing stays."""
    size, count = 1 << 18, 8
    with tf1.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf1.float32, [size // 4])
        _, y = tf1.while_loop(lambda i, _: i < count, lambda i, y: (i + 1, tf1.sin(y)), (0, x))
        metadata = RunMetadata()
        session.run(
            tf1.gradients(y, x), {x: np.ones(size // 4, np.float32)},
            options=RunOptions(trace_level=RunOptions.FULL_TRACE), run_metadata=metadata,
        )  # fmt: skip
        rows = metadata.allocations
        assert (count - 1) * size <= metadata.peak_bytes() <= (count + 5) * size
        assert rows.live()[-1] <= 2 * size


def test_a_gradient_graph_runs_on_tensorflow(tf: Any) -> None:
    """Its nodes are TensorFlow's: loops, TensorArrays, Switch and Merge."""
    with tf1.Graph().as_default() as graph, tf1.Session() as session:
        y, xs = in_each_other(tf1)
        slopes = tf1.gradients(y, xs)
        expected = session.run(slopes)
        names = [t.name for t in slopes]
    with tf.Graph().as_default(), tf.Session() as session:
        message = tf.GraphDef.FromString(graph.as_graph_def().SerializeToString())
        found = tf.import_graph_def(message, return_elements=names, name="")
        compare(expected, session.run(found))
