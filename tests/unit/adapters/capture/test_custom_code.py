"""Code that TensorFlow does not know: Python ops, a C++ op, annotations, and tapes around runs."""

from __future__ import annotations

import contextlib
import subprocess
import time

import numpy as np
import pytest

from stepscope.adapters import tensorflow as adapter
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

SOFTWARE = RunOptions(trace_level=RunOptions.SOFTWARE_TRACE)
MODES = ("session", "function", "eager")
NAP_S = 0.02

CPP = r"""
#include <chrono>
#include <thread>
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("StepscopeNap")
    .Input("x: float")
    .Output("y: float")
    .SetIsStateful()
    .SetShapeFn([](::tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->input(0));
      return ::tensorflow::Status();
    });

class NapOp : public ::tensorflow::OpKernel {
 public:
  explicit NapOp(::tensorflow::OpKernelConstruction* c) : OpKernel(c) {}
  void Compute(::tensorflow::OpKernelContext* c) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    c->set_output(0, c->input(0));
  }
};
REGISTER_KERNEL_BUILDER(Name("StepscopeNap").Device(::tensorflow::DEVICE_CPU), NapOp);
"""


@pytest.fixture(scope="session")
def nap_op(tensorflow, tmp_path_factory):
    """An op in C++ that sleeps for 20 ms, compiled against TensorFlow's headers."""
    folder = tmp_path_factory.mktemp("cpp_op")
    source, library = folder / "nap.cc", folder / "nap.so"
    source.write_text(CPP)
    command = ["g++", "-shared", "-fPIC", "-O1", "-w", str(source), "-o", str(library)]
    command += tensorflow.sysconfig.get_compile_flags() + tensorflow.sysconfig.get_link_flags()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("needs g++")
    assert done.returncode == 0, done.stderr[-2000:]
    return tensorflow.load_op_library(str(library)).stepscope_nap


def traced(tf, mode, body):
    """(result, metadata) of `body(x)` for a scalar, in a mode."""
    metadata = RunMetadata()
    if mode == "session":
        graph = tf.Graph()
        with graph.as_default():
            x = tf.compat.v1.placeholder(tf.float32, [])
            y = body(x)
        with adapter.Session(graph=graph) as session:
            result = session.run(y, {x: 2.0}, options=SOFTWARE, run_metadata=metadata)
        return result, metadata
    called = tf.function(body) if mode == "function" else body
    result = adapter.run(called, tf.constant(2.0), options=SOFTWARE, run_metadata=metadata)
    return result.numpy(), metadata


@contextlib.contextmanager
def as_long_as_it_took():
    """Gives a function that says how long the block took, once it is over."""
    began = time.perf_counter()
    ended = []
    yield lambda: ended[0] - began
    ended.append(time.perf_counter())


def seconds_of(metadata, op):
    """How long each execution of an op type took."""
    ops = metadata.ops
    took = (ops.end_ns - ops.start_ns) / 1e9
    return [float(s) for s, kind in zip(took, ops.op, strict=True) if kind == op]


@pytest.mark.parametrize("mode", MODES)
def test_a_cpp_op_is_timed_as_any_other(tensorflow, nap_op, mode):
    with as_long_as_it_took() as whole:
        result, metadata = traced(tensorflow, mode, lambda x: nap_op(x) + 1.0)
    assert result == 3.0
    (took,) = seconds_of(metadata, "StepscopeNap")
    assert NAP_S <= took < whole()


def nap(x):
    time.sleep(NAP_S)
    return np.float32(x + 1)


@pytest.mark.parametrize("mode", MODES)
def test_numpy_functions_are_timed(tensorflow, mode):
    tf = tensorflow
    with as_long_as_it_took() as whole:
        result, metadata = traced(
            tf, mode, lambda x: tf.numpy_function(nap, [x], tf.float32, name="napping")
        )
    assert result == 3.0
    (took,) = seconds_of(metadata, "PyFunc")
    assert NAP_S <= took < whole()
    (name,) = [
        n for n, op in zip(metadata.ops.name, metadata.ops.op, strict=True) if op == "PyFunc"
    ]
    assert name == ("nap" if mode == "eager" else "napping")


@pytest.mark.parametrize("mode", MODES)
def test_py_functions_are_timed(tensorflow, mode):
    tf = tensorflow

    def body(x):
        time.sleep(NAP_S)
        return x + 1.0

    with as_long_as_it_took() as whole:
        result, metadata = traced(
            tf, mode, lambda x: tf.py_function(body, [x], tf.float32, name="napping")
        )
    assert result == 3.0
    (took,) = seconds_of(metadata, "EagerPyFunc")
    assert NAP_S <= took < whole()


def test_an_untraced_numpy_function_is_not_touched(tensorflow):
    tf = tensorflow
    traced(tf, "eager", lambda x: tf.numpy_function(nap, [x], tf.float32))
    assert tf.numpy_function(nap, [tf.constant(4.0)], tf.float32).numpy() == 5.0


@pytest.mark.parametrize("mode", MODES)
def test_annotations_nest_in_every_mode(tensorflow, mode):
    tf = tensorflow

    @adapter.annotate("in the op: inner")
    def inner(x):
        time.sleep(NAP_S)
        return x

    def python(x):
        with adapter.annotate("in the op"):
            return inner(np.float32(x + 1))

    with adapter.annotate("around nobody's run"):
        result, metadata = traced(
            tf, mode, lambda x: tf.numpy_function(python, [x], tf.float32, name="spans")
        )
    assert result == 3.0
    ops = metadata.ops
    rows = {
        name: (start, end)
        for name, op, start, end in zip(ops.name, ops.op, ops.start_ns, ops.end_ns, strict=True)
        if op in ("Annotation", "PyFunc")
    }
    outside = rows["python" if mode == "eager" else "spans"]
    outer, within = rows["in the op"], rows["in the op: inner"]
    assert outside[0] <= outer[0] <= within[0]
    assert within[1] <= outer[1] <= outside[1]
    assert (within[1] - within[0]) / 1e9 >= NAP_S
    assert "around nobody's run" not in rows


def test_annotations_around_several_ops_of_a_block(tensorflow):
    tf = tensorflow
    with adapter.observe(SOFTWARE) as metadata, adapter.annotate("block"):
        for i in range(2):
            with adapter.annotate(f"round {i} of #2"):
                tf.linalg.matmul(tf.ones([4, 4]), tf.ones([4, 4]))
    found = {
        n for n, op in zip(metadata.ops.name, metadata.ops.op, strict=True) if op == "Annotation"
    }
    assert found == {"block", "round 0 of #2", "round 1 of #2"}


def test_annotations_cost_no_error_where_nothing_is_traced(tensorflow):
    with adapter.annotate("untraced"):
        assert (tensorflow.ones([]) + 1.0).numpy() == 2.0
    with pytest.raises(TypeError, match="takes a name"):
        adapter.annotate(3)


@pytest.mark.parametrize("level", [RunOptions.SOFTWARE_TRACE, RunOptions.FULL_TRACE])
@pytest.mark.parametrize("mode", ["function", "eager"])
def test_an_outer_tape_gives_the_same_gradients_with_and_without_tracing(tensorflow, mode, level):
    tf = tensorflow
    weights = tf.Variable(tf.reshape(tf.range(6.0), [2, 3]))
    x = tf.constant([[1.0, -2.0]])

    def body(x):
        return tf.reduce_sum(tf.tanh(tf.matmul(x, weights)) ** 2)

    step = tf.function(body) if mode == "function" else body

    def gradients(call):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = call()
        return [g.numpy() for g in tape.gradient(loss, [x, weights])]

    plain = gradients(lambda: step(x))
    metadata = RunMetadata()
    recorded = gradients(
        lambda: adapter.run(step, x, options=RunOptions(trace_level=level), run_metadata=metadata)
    )
    for ours, theirs in zip(recorded, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert "MatMul" in list(metadata.ops.op)
