"""Floating-point operations: TensorFlow's own statistics say the same, op by op."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import stepscope.tf1  # noqa: F401 - registers all ops
from stepscope.analysis.work import op_work as op_work_module
from stepscope.analysis.work.graph_calls import graph_calls
from stepscope.analysis.work.op_work import (
    KnownTensor,
    OpCall,
    known_op_types,
    op_work,
    tensorflow_flops,
)
from stepscope.graph import registry


def _every_registered_op(tf: Any) -> None:
    """Ops of all types that TensorFlow counts, in several shapes and with several attributes."""
    x = tf.placeholder(tf.float32, [5, 7], "x")
    row = tf.placeholder(tf.float32, [7], "row")
    scalar = tf.constant(2.0)
    unknown = tf.placeholder(tf.float32, [None, 7], "unknown")
    raw = tf.raw_ops
    for unary in (raw.Reciprocal, raw.Square, raw.Rsqrt, raw.Log, raw.Neg):
        for given in (x, scalar, unknown):
            unary(x=given)
    raw.Softmax(logits=x)
    for t in (x, scalar, unknown):
        raw.L2Loss(t=t)
    binary = (
        raw.Add, raw.AddV2, raw.Sub, raw.Mul, raw.RealDiv, raw.Maximum, raw.Minimum, raw.Pow,
        raw.GreaterEqual, raw.Greater, raw.LessEqual, raw.Less, raw.Equal, raw.NotEqual,
        raw.SquaredDifference,
    )  # fmt: skip
    for op in binary:
        for left, right in ((x, row), (row, x), (scalar, x), (scalar, scalar), (unknown, row)):
            op(x=left, y=right)
    raw.RsqrtGrad(y=x, dy=x)
    for reduce in (raw.Mean, raw.Sum):
        for axis in ([0], [1], [0, 1], []):
            reduce(input=x, axis=tf.constant(axis, tf.int32))
    raw.ArgMax(input=x, dimension=0)
    raw.ArgMin(input=x, dimension=1)
    raw.BiasAdd(value=x, bias=row)
    raw.BiasAddGrad(out_backprop=x)
    for count in (1, 2, 4):
        raw.AddN(inputs=[x] * count)
    other = tf.placeholder(tf.float32, [5, 3])
    for transpose_a, transpose_b, left, right in (
        (False, False, x, tf.zeros([7, 3])), (True, False, x, other),
        (False, True, x, tf.zeros([3, 7])), (True, True, x, tf.zeros([2, 5])),
        (False, False, unknown, tf.zeros([7, 3])),
    ):  # fmt: skip
        raw.MatMul(a=left, b=right, transpose_a=transpose_a, transpose_b=transpose_b)
    batch = tf.placeholder(tf.float32, [4, 2, 3, 5])
    for op in (raw.BatchMatMul, raw.BatchMatMulV2):
        op(x=batch, y=tf.zeros([4, 2, 5, 6]))
        op(x=batch, y=tf.zeros([4, 2, 3, 6]), adj_x=True)
        op(x=batch, y=tf.zeros([4, 2, 6, 5]), adj_y=True)
    raw.BatchMatMulV3(x=batch, y=tf.zeros([5, 6]), Tout=tf.float32)
    _images(tf)
    variable = tf.get_variable("v", [5, 7], use_resource=False)
    tf.assign_add(variable, x)
    tf.assign_sub(variable, x)


def _images(tf: Any) -> None:
    raw = tf.raw_ops
    image = tf.placeholder(tf.float32, [2, 9, 11, 3], "image")
    window = tf.placeholder(tf.float32, [3, 2, 3, 8], "window")
    for strides, padding in (
        ([1, 1, 1, 1], "SAME"),
        ([1, 2, 3, 1], "VALID"),
        ([1, 2, 2, 1], "SAME"),
    ):
        shape = {"strides": strides, "padding": padding}
        out = raw.Conv2D(input=image, filter=window, **shape)
        raw.Conv2DBackpropInput(input_sizes=[2, 9, 11, 3], filter=window, out_backprop=out, **shape)
        raw.Conv2DBackpropFilter(input=image, filter_sizes=[3, 2, 3, 8], out_backprop=out, **shape)
        pool = {"ksize": [1, 2, 3, 1], **shape}
        average, largest = raw.AvgPool(value=image, **pool), raw.MaxPool(input=image, **pool)
        raw.AvgPoolGrad(orig_input_shape=[2, 9, 11, 3], grad=average, **pool)
        raw.MaxPoolGrad(orig_input=image, orig_output=largest, grad=largest, **pool)
    raw.DepthwiseConv2dNative(
        input=image, filter=tf.zeros([3, 2, 3, 4]), strides=[1, 1, 1, 1], padding="SAME"
    )
    raw.Dilation2D(
        input=image, filter=tf.zeros([3, 2, 3]), strides=[1, 1, 1, 1], rates=[1, 1, 1, 1],
        padding="SAME",
    )  # fmt: skip
    raw.Conv3D(
        input=tf.zeros([2, 5, 6, 7, 3]), filter=tf.zeros([2, 3, 2, 3, 4]),
        strides=[1, 1, 2, 1, 1], padding="SAME",
    )  # fmt: skip
    columns = tf.placeholder(tf.float32, [2, 3, 9, 11], "columns")
    first = {"strides": [1, 1, 1, 1], "padding": "VALID", "data_format": "NCHW"}
    raw.Conv2D(input=columns, filter=window, **first)
    raw.MaxPool(input=columns, ksize=[1, 1, 2, 2], **first)


def _statistics(tf: Any, graph: Any) -> Iterator[tuple[str, int]]:
    """What TensorFlow's registered statistics say of every op of a graph."""
    from tensorflow.python.framework import ops
    from tensorflow.python.profiler import tfprof_logger  # noqa: F401 - registers them

    for op in graph.get_operations():
        try:
            found = ops.get_stats_for_node_def(graph, op.node_def, "flops").value
        except ValueError:
            found = None
        yield op.name, int(found or 0)


def test_each_op_has_the_flops_that_tensorflow_registers(tf: Any) -> None:
    with tf.Graph().as_default() as graph:
        _every_registered_op(tf)
    ours = {
        node.name: tensorflow_flops(call) or 0
        for node, call in graph_calls(graph.as_graph_def(add_shapes=True))
    }
    theirs = dict(_statistics(tf, graph))
    assert ours == theirs
    counted = {graph.get_operation_by_name(name).type for name, flops in theirs.items() if flops}
    from tensorflow.python.framework.ops import _stats_registry

    registered = {key.partition(",")[0] for key in _stats_registry.list() if ",flops" in key}
    assert counted == registered


def test_types_of_the_embedded_engine_are_known_or_have_no_formula() -> None:
    strings_and_files = {
        "AsString", "HistogramSummary", "ImageSummary", "MatchingFiles", "MergeSummary",
        "MergeV2Checkpoints", "Print", "PrintV2", "ReadFile", "ReduceJoin", "RestoreV2", "SaveV2",
        "ScalarSummary", "ShardedFilename", "TensorSummaryV2", "WriteFile",
    }  # fmt: skip
    random = {
        "Multinomial", "RandomStandardNormal", "RandomUniform", "RandomUniformInt",
        "TruncatedNormal",
    }  # fmt: skip
    by_data = {
        "CollectiveReduce", "CollectiveReduceV2", "ComputeAccidentalHits", "DynamicPartition",
        "ParallelDynamicStitch", "PyFunc", "PyFuncStateless", "TopKV2",
    }  # fmt: skip
    pictures = {
        "AdjustContrastv2", "AdjustHue", "AdjustSaturation", "CropAndResize",
        "CropAndResizeGradBoxes", "CropAndResizeGradImage", "DrawBoundingBoxes",
        "DrawBoundingBoxesV2", "HSVToRGB", "NonMaxSuppressionV3", "RGBToHSV",
    }  # fmt: skip
    not_yet = {
        "AudioSummaryV2", "Diag", "DiagPart", "Einsum", "ExtractJpegShape", "LRNGrad",
        "MatrixBandPart", "PaddingFIFOQueueV2", "PriorityQueueV2", "SerializeTensor",
    }  # fmt: skip
    # Optimizers' updates, sparse tensors, readers, formats of files, samplers, pictures, tables.
    families = re.compile(
        r"(Resource)?(Sparse)?Apply|Sparse|Reader|Decode|Encode|Parse|Resize|String|Substr|Regex"
        r"|StaticRegex|Segment|LeftShift|RightShift|Cholesky|Qr|SelfAdjointEig|Svd"
        r"|MatrixInverse|MatrixSolve|MatrixTriangularSolve|MatrixDeterminant|LogMatrixDeterminant"
        r"|(Mutable)?HashTable|InitializeTable|LookupTable"
        r"|\w+(Reader(V2)?|CandidateSampler)$"
    )
    # Other tests register types of their own.
    ours = {op.name for op in registry.registered() if not op.name.startswith("_Test")}
    # What functions of a pipeline do is in rows of their own.
    pipelines = {name for name in ours if "Dataset" in name or "Iterator" in name}
    unknown = {name for name in ours - known_op_types() if not families.match(name)}
    assert unknown - pipelines == strings_and_files | random | by_data | pictures | not_yet


def _f32(*shape: int) -> KnownTensor:
    size = 4
    for length in shape:
        size *= length
    return KnownTensor(shape, size)


SQUARE = _f32(8, 8)
OURS: dict[str, tuple[Callable[[], OpCall], int | None, int | None]] = {
    "a fused layer": (
        lambda: OpCall("_FusedMatMul", (_f32(32, 784), _f32(784, 10), _f32(10)), (_f32(32, 10),)),
        2 * 32 * 784 * 10 + 320,
        4 * (32 * 784 + 784 * 10 + 10 + 320),
    ),
    "a product with its left side transposed, of which no graph tells": (
        lambda: OpCall("MatMul", (_f32(784, 32), _f32(784, 10)), (_f32(32, 10),)),
        2 * 784 * 320,
        4 * (784 * 32 + 784 * 10 + 320),
    ),
    "a batch of products, transposed, which TensorFlow counts by the wrong length": (
        lambda: OpCall("BatchMatMulV2", (_f32(4, 3, 5), _f32(4, 3, 6)), (_f32(4, 5, 6),)),
        2 * 3 * 4 * 5 * 6,
        4 * (60 + 72 + 120),
    ),
    "oneDNN's name of a type": (
        lambda: OpCall("_MklNativeMatMul", (_f32(2, 3), _f32(3, 4)), (_f32(2, 4),)),
        48,
        4 * (6 + 12 + 8),
    ),
    "an optimizer's step on a resource variable": (
        lambda: OpCall(
            "ResourceApplyAdam", (*[KnownTensor((), 0)] * 9, _f32(100, 10)), ()
        ),
        12_000,
        4 * 7 * 1000,
    ),
    "a cell of an LSTM": (
        lambda: OpCall(
            "LSTMBlockCell",
            (_f32(2, 3), _f32(2, 5), _f32(2, 5), _f32(8, 20), _f32(5), _f32(5), _f32(5), _f32(20)),
            tuple([_f32(2, 5)] * 7),
        ),
        2 * (2 * 8 * 20 + 23 * 5),
        4 * (6 + 10 + 10 + 160 + 15 + 20 + 70),
    ),
    "a view moves nothing": (lambda: OpCall("Reshape", (SQUARE, _f32(2)), (SQUARE,)), 0, 0),
    "rows looked up in a table": (
        lambda: OpCall("GatherV2", (_f32(10_000, 8), _f32(4), _f32()), (_f32(4, 8),)), 0, 256,
    ),
    "a shape that nobody knows": (
        lambda: OpCall("MatMul", (KnownTensor(None), SQUARE), (SQUARE,)), None, None,
    ),
    "a type that nobody knows": (lambda: OpCall("Mystery", (SQUARE,), (SQUARE,)), None, 512),
    "a call of a function, whose ops have rows of their own": (
        lambda: OpCall("StatefulPartitionedCall", (SQUARE,), (SQUARE,)), None, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OURS)
def test_what_tensorflow_does_not_count(case: str) -> None:
    call, flops, size = OURS[case]
    work = op_work(call())
    assert (work.flops, work.bytes) == (flops, size)
    assert (work.flops is None) == bool(work.lacking)


def test_a_window_is_in_the_graph_only() -> None:
    call = OpCall("MaxPool", (_f32(1, 8, 8, 3),), (_f32(1, 4, 4, 3),))
    assert op_work(call).lacking == "the graph is not there, which has 'ksize' of MaxPool"


def test_the_worked_examples_are_true() -> None:
    assert doctest.testmod(op_work_module).failed == 0
