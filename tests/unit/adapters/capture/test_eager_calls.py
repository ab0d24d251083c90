"""Eager code: what each call of an op did, and when more than the calls has to be looked at."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import stepscope
from stepscope.adapters.tensorflow.capture.called_ops import CalledOps
from stepscope.metadata import RunMetadata

SOFTWARE = stepscope.RunOptions(trace_level=stepscope.RunOptions.SOFTWARE_TRACE)
FULL = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)


def outputs(metadata: RunMetadata) -> list[tuple[str, tuple[int, ...]]]:
    """Op type and shape of what was put out, in order."""
    ops, tensors = metadata.ops, metadata.ops.tensors
    return [(ops.op[i], shape) for i, shape in zip(tensors.op_index, tensors.shape, strict=True)]


def test_each_call_has_its_own_shape_and_times(tensorflow: Any) -> None:
    tf = tensorflow
    a, b = tf.ones([2, 3]), tf.ones([3, 4])
    with stepscope.observe(FULL) as metadata:
        for left, right in ((a, b), (b, tf.transpose(b))):
            tf.matmul(left, right)
        tf.split(a, 2)
    assert outputs(metadata) == [
        ("Transpose", (4, 3)), ("MatMul", (2, 4)), ("MatMul", (3, 3)),
        ("Split", (1, 3)), ("Split", (1, 3)),
    ]  # fmt: skip
    ops = metadata.ops
    assert ops.output_bytes.tolist() == [48, 32, 36, 24]
    assert (ops.start_ns < ops.end_ns).all()
    assert (ops.end_ns[:-1] <= ops.start_ns[1:]).all(), "one after the other"
    assert set(ops.thread.tolist()) == {threading.get_native_id()}


def test_a_full_record_says_how_eager_ops_were_timed(tensorflow: Any) -> None:
    with stepscope.observe(FULL) as metadata:
        tensorflow.exp(tensorflow.ones([2]))
    losses = {loss.what: loss for loss in metadata.completeness.losses}
    assert losses["kernel times of eager ops"].count == len(metadata.ops)
    assert "calls" in losses["kernel times of eager ops"].reason


def test_eager_ops_need_no_profiler(tensorflow: Any) -> None:
    tf = tensorflow
    double = tf.function(lambda x: tf.tanh(x) * 2.0)
    x = tf.ones([2])
    double(x)
    tf.profiler.experimental.start("ram://own-profile-of-eager-code")
    try:
        with stepscope.observe(SOFTWARE) as alone:
            tf.exp(x)
        with stepscope.observe(SOFTWARE) as with_function:
            tf.exp(x)
            double(x)
    finally:
        tf.profiler.experimental.stop(save=False)
    assert alone.ops.op.tolist() == ["Exp"]
    assert alone.completeness.complete
    # Of functions it has, and the program has it: that is said.
    assert with_function.ops.op.tolist() == ["Exp"]
    assert "op executions" in [loss.what for loss in with_function.completeness.losses]


@pytest.mark.parametrize("options", [SOFTWARE, FULL])
def test_what_executes_more_than_an_op_is_recorded_from_its_first_call_on(
    tensorflow: Any, options: Any
) -> None:
    tf = tensorflow
    double = tf.function(lambda x: tf.tanh(x) * 2.0)
    numbers = tf.data.Dataset.range(2).map(lambda n: n + 5)
    graph = tf.Graph()
    with graph.as_default():
        root = tf.sqrt(tf.random.uniform([2]), name="root")
    x = tf.ones([2])
    double(x)
    with stepscope.observe(options) as metadata:
        tf.exp(x)
        double(x)
        assert [int(n) for n in numbers] == [5, 6]
        with tf.compat.v1.Session(graph=graph) as session:
            session.run(root)
        tf.sin(x)
    ran = metadata.ops.op.tolist()
    assert ran.count("Exp") == ran.count("Tanh") == ran.count("Sin") == 1
    assert ran.count("IteratorGetNext") == 3, "the last one finds the end"
    assert ran.count("AddV2") == 2, "in the pipeline"
    assert "root" in metadata.ops.name
    assert metadata.status.ok


def test_a_function_in_eager_code_is_recorded_with_its_graph(tensorflow: Any) -> None:
    tf = tensorflow
    double = tf.function(lambda x: tf.tanh(x) * 2.0)
    x = tf.ones([2])
    double(x)
    with stepscope.observe(FULL) as metadata:
        tf.exp(x)
        double(x)
    assert len(metadata.function_graphs) == 1
    assert ("Tanh", (2,)) in outputs(metadata)


def test_a_run_inside_another_is_in_both(tensorflow: Any) -> None:
    tf = tensorflow
    x = tf.ones([2])
    with stepscope.observe(SOFTWARE) as outer:
        tf.exp(x)
        with stepscope.observe(FULL) as inner:
            tf.sin(x)
            with stepscope.annotate("span"):
                tf.tanh(x)
        tf.cos(x)
    assert inner.ops.op.tolist() == ["Sin", "Annotation", "Tanh"]
    assert outer.ops.op.tolist() == ["Exp", "Sin", "Annotation", "Tanh", "Cos"]
    assert outputs(inner) == [("Sin", (2,)), ("Tanh", (2,))]


def test_other_threads_are_not_noted(tensorflow: Any) -> None:
    tf = tensorflow
    x = tf.ones([2])
    with stepscope.observe(SOFTWARE) as metadata:
        thread = threading.Thread(target=lambda: tf.sin(x))
        thread.start()
        thread.join()
        tf.exp(x)
    assert metadata.ops.op.tolist() == ["Exp"]


def test_the_op_that_failed_is_no_execution_and_one_that_was_caught_is(tensorflow: Any) -> None:
    tf = tensorflow

    def caught() -> None:
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.linalg.inv(tf.zeros([2, 2]))
        tf.exp(1.0)

    metadata = RunMetadata()
    stepscope.run(caught, options=SOFTWARE, run_metadata=metadata)
    assert [op for op in metadata.ops.op if op != "Fill"] == ["MatrixInverse", "Exp"]
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        stepscope.run(lambda: tf.linalg.inv(tf.zeros([2, 2])), options=SOFTWARE)
    failed = raised.value.run_metadata
    assert "MatrixInverse" not in failed.ops.op
    assert list(failed.status.in_flight) == ["MatrixInverse"]


def test_what_is_destroyed_after_the_op_that_failed_does_not_make_it_one_that_ran(
    tensorflow: Any,
) -> None:
    tf = tensorflow
    held = [tf.queue.FIFOQueue(3, [tf.float32])]

    def fails() -> None:
        try:
            tf.reshape(tf.exp(tf.ones([2])), [3])
        finally:
            held.clear()

    metadata = RunMetadata()
    with pytest.raises(tf.errors.InvalidArgumentError):
        stepscope.run(fails, options=SOFTWARE, run_metadata=metadata)
    assert metadata.ops.op[-1] == "DestroyResourceOp"
    assert "Exp" in metadata.ops.op
    assert "Reshape" not in metadata.ops.op
    assert metadata.status.in_flight == ["Reshape"]


def test_what_is_destroyed_while_an_op_is_noted_is_not_taken_for_it(tensorflow: Any) -> None:
    tf = tensorflow
    called = CalledOps(outputs=True)
    with called.noting():
        x = tf.ones([2])
        held = [tf.queue.FIFOQueue(3, [tf.float32])]
        tensors = called._tensors

        def collecting(result: Any) -> Any:
            for tensor in tensors(result):
                yield tensor
                held.clear()

        called._tensors = collecting  # type: ignore[method-assign]
        tf.split(x, 2)
        called._tensors = tensors  # type: ignore[method-assign]
    outputs = {call.op: [output.shape for output in call.outputs] for call in called.calls()}
    assert list(outputs)[-2:] == ["DestroyResourceOp", "Split"]
    assert outputs["Split"] == [(1,), (1,)]
    assert outputs["DestroyResourceOp"] == []


def test_tensors_that_share_memory_are_counted_once(tensorflow: Any) -> None:
    tf = tensorflow

    def step() -> Any:
        made = tf.random.uniform([64, 64])
        flat = tf.reshape(made, [-1])
        part = made[:32]  # the same memory, as it begins where the memory does
        del made, part
        return tf.reduce_sum(flat)

    metadata = RunMetadata()
    stepscope.run(step, options=FULL, run_metadata=metadata)
    rows = metadata.allocations
    large = rows.select(abs(rows.bytes) >= 8192)
    assert large.name.tolist() == ["RandomUniform"] * 2
    assert large.event.tolist() == ["allocate", "free"]
    assert large.address[0] == large.address[1]
