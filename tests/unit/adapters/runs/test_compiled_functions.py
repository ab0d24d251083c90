"""Functions that XLA compiles as a whole: one execution, and the reason why there are no more."""

import pytest

import stepscope
from stepscope.adapters import tensorflow as adapter
from stepscope.analysis import coverage
from stepscope.options import RunOptions

FULL = RunOptions(trace_level=RunOptions.FULL_TRACE)


@pytest.fixture(scope="module")
def compiled(tensorflow):
    @tensorflow.function(jit_compile=True)
    def layer(x):
        return tensorflow.tanh(tensorflow.matmul(x, x)) * 2.0

    layer(tensorflow.ones([3, 3]))
    return layer


def traced(call, *args):
    metadata = stepscope.RunMetadata()
    adapter.run(call, *args, options=FULL, run_metadata=metadata)
    return metadata


def test_the_call_is_timed(tensorflow, compiled):
    metadata = traced(compiled, tensorflow.ones([3, 3]))
    ops = metadata.ops
    (name,) = ops.name
    assert name.startswith("__inference_layer_")
    assert list(ops.op) == ["XlaLaunch"]
    assert int((ops.end_ns - ops.start_ns)[0]) > 0
    (loss,) = (found for found in metadata.completeness.losses if "compiled" in found.what)
    assert name in loss.reason


def test_its_ops_are_accounted_for(tensorflow, compiled):
    x = tensorflow.ones([3, 3])
    metadata = traced(compiled, x)
    graph = compiled.get_concrete_function(x).graph
    found = coverage(metadata, graph)
    assert found["x"].state == "fed"
    assert {found[name].state for name in ("MatMul", "Tanh", "mul")} == {"in XLA cluster"}
    assert found["Tanh"].detail == metadata.ops.name[0]
    assert found.unknown == 0
    other = tensorflow.function(lambda x: tensorflow.exp(x)).get_concrete_function(x).graph
    assert coverage(metadata, other)["Exp"].state == "unknown", "that function was not run"


def test_in_a_callable_it_stands_beside_the_eager_ops(tensorflow, compiled):
    def step(x):
        return tensorflow.exp(compiled(x))

    metadata = traced(step, tensorflow.ones([3, 3]))
    assert list(metadata.ops.op) == ["XlaLaunch", "Exp"]
