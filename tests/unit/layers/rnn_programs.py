"""Recurrent networks, built here and by TensorFlow 2.15, the last that has `tf.nn.rnn_cell`.

`python tests/unit/layers/rnn_programs.py`, run with TensorFlow 2.15, writes again what it gives for
each of them (`tests/data/rnn.json`): variables, shapes, values and gradients.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RECORDED = Path(__file__).parents[2] / "data" / "rnn.json"
X = np.sin(np.arange(3 * 4 * 2)).reshape(3, 4, 2)
"""3 sequences of 4 steps, 2 wide."""
LENGTHS = [2, 4, 1]


def sequences(tf: Any, batch: int | None = 3, dtype: str = "float32") -> Any:
    return tf.placeholder(dtype, [batch, 4, 2], name="x")


def lengths(tf: Any) -> Any:
    return tf.placeholder("int32", [None], name="lengths")


def dynamic(cell: Callable[[Any], Any], **more: Any) -> Callable[[Any], Any]:
    def build(tf: Any) -> Any:
        outputs, state = tf.nn.dynamic_rnn(
            cell(tf.nn.rnn_cell), sequences(tf), dtype=tf.float32, **more
        )
        return [outputs, *tf.nest_leaves(state)]

    return build


def with_lengths(tf: Any) -> Any:
    cell = tf.nn.rnn_cell.BasicLSTMCell(3)
    outputs, state = tf.nn.dynamic_rnn(
        cell, sequences(tf, None), sequence_length=lengths(tf), dtype=tf.float32
    )
    return [outputs, *state]


def time_major_and_started(tf: Any) -> Any:
    cell = tf.nn.rnn_cell.GRUCell(2)
    turned = tf.transpose(sequences(tf), [1, 0, 2])
    start = tf.constant([[0.5, -0.5]] * 3)
    outputs, state = tf.nn.dynamic_rnn(
        cell, turned, initial_state=start, time_major=True, scope="mine"
    )
    return [outputs, state]


def in_doubles(tf: Any) -> Any:
    cell = tf.nn.rnn_cell.LSTMCell(2, state_is_tuple=False)
    return list(tf.nn.dynamic_rnn(cell, sequences(tf, 3, "float64"), dtype=tf.float64))


def unrolled(tf: Any) -> Any:
    cell = tf.nn.rnn_cell.BasicLSTMCell(3, forget_bias=0.5, activation=tf.nn.relu)
    outputs, state = tf.nn.static_rnn(
        cell, tf.unstack(sequences(tf), axis=1), dtype=tf.float32, sequence_length=lengths(tf)
    )
    return [*outputs, *state]


def unrolled_twice(tf: Any) -> Any:
    """Two networks, and one whose variables are used again."""
    steps = tf.unstack(sequences(tf), axis=1)
    first, _ = tf.nn.static_rnn(tf.nn.rnn_cell.BasicRNNCell(2), steps, dtype=tf.float32)
    second, _ = tf.nn.static_rnn(
        tf.nn.rnn_cell.BasicRNNCell(2), steps, dtype=tf.float32, scope="other"
    )
    with tf.variable_scope("other", reuse=True):
        third, _ = tf.nn.rnn_cell.BasicRNNCell(2, name="basic_rnn_cell")(steps[0], tf.zeros([3, 2]))
    return [first[-1], second[-1], third]


def from_both_sides(tf: Any) -> Any:
    cells = tf.nn.rnn_cell
    outputs, states = tf.nn.bidirectional_dynamic_rnn(
        cells.LSTMCell(2), cells.GRUCell(3), sequences(tf), sequence_length=lengths(tf),
        dtype=tf.float32,
    )  # fmt: skip
    return [*outputs, *states[0], states[1]]


def from_both_sides_whole(tf: Any) -> Any:
    cells = tf.nn.rnn_cell
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(
        cells.BasicRNNCell(2), cells.BasicRNNCell(2), sequences(tf), dtype=tf.float32, scope="both"
    )
    return list(outputs)


def from_both_sides_unrolled(tf: Any) -> Any:
    cells = tf.nn.rnn_cell
    outputs, forth, back = tf.nn.static_bidirectional_rnn(
        cells.BasicLSTMCell(2), cells.BasicLSTMCell(2), tf.unstack(sequences(tf), axis=1),
        dtype=tf.float32,
    )  # fmt: skip
    return [*outputs, *forth, *back]


def by_hand(tf: Any) -> Any:
    """A cell called as people do who write the loop themselves."""
    cell = tf.nn.rnn_cell.BasicLSTMCell(2)
    x = sequences(tf)
    state = cell.zero_state(3, tf.float32)
    outputs = []
    with tf.variable_scope("RNN"):
        for step in range(3):
            if step > 0:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(x[:, step, :], state)
            outputs.append(output)
    return [tf.concat(outputs, 1), *state]


def raw(tf: Any) -> Any:
    cell = tf.nn.rnn_cell.BasicRNNCell(2)
    x = sequences(tf)
    steps = tf.TensorArray(tf.float32, 4).unstack(tf.transpose(x, [1, 0, 2]))
    ends = tf.constant(LENGTHS)

    def loop(time: Any, output: Any, state: Any, _own: Any) -> Any:
        following = cell.zero_state(3, tf.float32) if output is None else state
        done = time >= ends
        given = tf.cond(
            tf.reduce_all(done), lambda: tf.zeros([3, 2]), lambda: steps.read(time)
        )  # fmt: skip
        return done, given, following, output, None

    outputs, state, _ = tf.nn.raw_rnn(cell, loop)
    return [outputs.stack(), state]


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "basic": dynamic(lambda c: c.BasicRNNCell(3)),
    "basic_lstm": dynamic(lambda c: c.BasicLSTMCell(3)),
    "lstm": dynamic(lambda c: c.LSTMCell(3)),
    "peepholes": dynamic(lambda c: c.LSTMCell(3, use_peepholes=True, cell_clip=0.3)),
    "projection": dynamic(lambda c: c.LSTMCell(3, use_peepholes=True, num_proj=2, proj_clip=0.2)),
    "gru": dynamic(lambda c: c.GRUCell(3)),
    "stacked": dynamic(lambda c: c.MultiRNNCell([c.LSTMCell(3), c.GRUCell(2), c.BasicRNNCell(2)])),
    "residual": dynamic(lambda c: c.ResidualWrapper(c.GRUCell(2))),
    "wrapped": dynamic(
        lambda c: c.MultiRNNCell(
            [c.DropoutWrapper(c.BasicLSTMCell(3), output_keep_prob=1.0) for _ in range(2)]
        )
    ),
    "with_lengths": with_lengths,
    "time_major_and_started": time_major_and_started,
    "in_doubles": in_doubles,
    "unrolled": unrolled,
    "unrolled_twice": unrolled_twice,
    "from_both_sides": from_both_sides,
    "from_both_sides_whole": from_both_sides_whole,
    "from_both_sides_unrolled": from_both_sides_unrolled,
    "by_hand": by_hand,
    "raw": raw,
}


class WithLeaves:
    """TensorFlow's names, and one for the leaves of a structure."""

    def __init__(self, tf: Any) -> None:
        self._tf = tf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tf, name)

    def nest_leaves(self, structure: Any) -> list[Any]:
        if isinstance(structure, (list, tuple)):
            return [leaf for part in structure for leaf in self.nest_leaves(part)]
        return [structure]


def outcome(tf: Any, program: str) -> dict[str, Any]:
    """What a program gives with one TensorFlow or another, in plain values."""
    graph = tf.Graph()
    with graph.as_default():
        fetches = PROGRAMS[program](WithLeaves(tf))
        variables, trained = tf.global_variables(), tf.trainable_variables()
        total = tf.add_n([tf.reduce_sum(tf.cast(tf.square(y), "float32")) for y in fetches])
        x = graph.get_tensor_by_name("x:0")
        slopes = tf.gradients(total, [*trained, x])
        feeds = {x: X}
        if "lengths" in {op.name for op in graph.get_operations()}:
            feeds[graph.get_tensor_by_name("lengths:0")] = LENGTHS
        starts = []
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            for number, v in enumerate(variables):
                starts.append(float(np.mean(session.run(v))) if "bias" in v.name else None)
                count = int(np.prod(v.shape.as_list()))
                value = 0.7 * np.sin(np.arange(count) + number).reshape(v.shape.as_list())
                session.run(v.initializer, {v.initializer.inputs[1]: value})
            values, gradients = session.run([fetches, slopes], feeds)
    return {
        "shapes": [str(t.shape) for t in fetches],
        "dtypes": [np.asarray(v).dtype.name for v in values],
        "variables": [[v.name, v.shape.as_list()] for v in variables],
        "trained": [v.name for v in trained],
        "biases": starts,
        "values": [np.asarray(v).tolist() for v in values],
        "gradients": [np.asarray(v).tolist() for v in gradients],
    }


def main() -> None:
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    tf.disable_control_flow_v2()
    recorded = {name: outcome(tf, name) for name in PROGRAMS}
    text = ",\n".join(f"{json.dumps(n)}: {json.dumps(rounded(v))}" for n, v in recorded.items())
    RECORDED.write_text(f"{{{text}}}\n", encoding="utf-8")


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
