"""Source lines of functions: from their traces, and from the text of TensorFlow's errors."""

from __future__ import annotations

from typing import Any

import pytest

import stepscope


def test_a_function_has_source_lines_and_so_have_its_errors(tensorflow: Any) -> None:
    import tensorflow as tf

    from stepscope.adapters import tensorflow as adapter
    from stepscope.adapters.tensorflow.memory_report import source_in

    def inverse(x: Any) -> Any:
        return tf.linalg.inv(x, name="inv")

    line = f"{__file__}:{inverse.__code__.co_firstlineno + 1}"
    function = tf.function(inverse)
    metadata = stepscope.RunMetadata()
    adapter.run(function, tf.eye(2), run_metadata=metadata)
    assert metadata.sources["inv"] == line
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        function(tf.zeros([2, 2]))
    assert source_in(raised.value.message) == line
    assert source_in("out of memory") == ""


def test_eager_ops_have_the_line_that_called_them_where_there_is_one(tensorflow: Any) -> None:
    import tensorflow as tf

    from stepscope.adapters import tensorflow as adapter

    def step(x: Any) -> Any:
        y = tf.nn.softmax(tf.matmul(x, x))
        y = tf.exp(y)
        return tf.exp(y)

    metadata = stepscope.RunMetadata()
    adapter.run(step, tf.eye(2), run_metadata=metadata)
    first = f"{__file__}:{step.__code__.co_firstlineno + 1}"
    assert {metadata.sources[op] for op in ("MatMul", "Softmax")} == {first}
    assert "Exp" not in metadata.sources
    losses = {loss.what: loss for loss in metadata.completeness.losses}
    assert losses["source lines of eager ops"].count == 1
    assert "Exp" in losses["source lines of eager ops"].reason
