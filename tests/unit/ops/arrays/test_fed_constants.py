"""A constant that an op takes for a shape, an axis or a count may be fed, as on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from op_cases import OURS, all_cases, assert_same_value, flatten

from stepscope.errors import OpError
from stepscope.graph import constants
from stepscope.graph.graph import Graph
from stepscope.graph.registry import ShapeContext
from stepscope.runtime import Session

F = np.arange(6, dtype=np.float32).reshape(2, 3)
IMAGE = np.ones((1, 2, 2, 1), np.float32)
BOX = np.float32([[0.1, 0.2, 0.8, 0.9]])
FILTER = np.ones((2, 2, 1, 1), np.float32)


@dataclass(frozen=True)
class Fed:
    """An op of a constant with a value, and what is fed in its place."""

    op_type: str
    value: Any
    fed: Any
    build: Callable[[Any, Any], Any]
    """`build(tf, constant)` gives what is fetched."""
    is_random: bool = False
    why: str = ""


def x(tf: Any) -> Any:
    return tf.constant(F)


def conv(tf: Any, op_type: str, **inputs: Any) -> Any:
    return getattr(tf.raw_ops, op_type)(strides=[1, 1, 1, 1], padding="VALID", **inputs)


def conv3d(tf: Any, op_type: str, shape: tuple[int, ...], **inputs: Any) -> Any:
    slope = tf.placeholder_with_default(np.ones(shape, np.float32), None)
    return getattr(tf.raw_ops, op_type)(
        strides=[1] * 5, padding="VALID", out_backprop=slope, **inputs
    )


def dequeued(tf: Any, count: Any) -> Any:
    queue = tf.FIFOQueue(9, [tf.int32], [[]])
    with tf.control_dependencies([queue.enqueue_many([[1, 2, 3, 4]])]):
        return queue.dequeue_up_to(count)


ROWS = [
    Fed("Reshape", [2, 3], [3, 2], lambda tf, c: tf.reshape(x(tf), c)),
    Fed("Fill", [2], [3], lambda tf, c: tf.fill(c, 1.0)),
    Fed("Fill", [2], [3], lambda tf, c: tf.zeros(c), why="zeros"),
    Fed("Fill", [2], [3], lambda tf, c: tf.ones(c), why="ones"),
    Fed("RandomUniform", [2], [3], lambda tf, c: tf.random_uniform(c), is_random=True),
    Fed("RandomUniformInt", [2], [3],
        lambda tf, c: tf.random_uniform(c, 0, 5, tf.int32), is_random=True),
    Fed("RandomStandardNormal", [2], [3], lambda tf, c: tf.random_normal(c), is_random=True),
    Fed("TruncatedNormal", [2], [3], lambda tf, c: tf.truncated_normal(c), is_random=True),
    Fed("Multinomial", 2, 3,
        lambda tf, c: tf.multinomial([[1.0, 2.0]], c), is_random=True),
    Fed("ExpandDims", 0, 2, lambda tf, c: tf.expand_dims(x(tf), c)),
    Fed("Transpose", [0, 1], [1, 0], lambda tf, c: tf.transpose(x(tf), c)),
    Fed("Tile", [1, 2], [2, 1], lambda tf, c: tf.tile(x(tf), c)),
    Fed("Slice", [0, 0], [1, 1], lambda tf, c: tf.slice(x(tf), c, [1, 1]), why="begin"),
    Fed("Slice", [1, 1], [2, 2], lambda tf, c: tf.slice(x(tf), [0, 0], c), why="size"),
    Fed("StridedSlice", [0], [1], lambda tf, c: tf.strided_slice(x(tf), c, [2])),
    Fed("StridedSlice", 0, 1, lambda tf, c: x(tf)[c], why="index"),
    Fed("StridedSliceGrad", [2, 3], [3, 3],
        lambda tf, c: tf.raw_ops.StridedSliceGrad(
            shape=c, begin=[0], end=[1], strides=[1], dy=[[1.0, 2.0, 3.0]])),
    Fed("Range", 3, 5, lambda tf, c: tf.range(c)),
    Fed("Range", 3.0, 5.0, lambda tf, c: tf.range(0.0, c, 1.0), why="floats"),
    Fed("LinSpace", 3, 5, lambda tf, c: tf.raw_ops.LinSpace(start=0.0, stop=1.0, num=c)),
    Fed("ConcatV2", 0, 1, lambda tf, c: tf.concat([x(tf), x(tf)], c)),
    Fed("Sum", 0, 1, lambda tf, c: tf.reduce_sum(x(tf), c)),
    Fed("Mean", [0], [1], lambda tf, c: tf.reduce_mean(x(tf), c)),
    Fed("Max", [1], [0], lambda tf, c: tf.reduce_max(x(tf), c, keepdims=True)),
    Fed("Min", 0, 1, lambda tf, c: tf.reduce_min(x(tf), c)),
    Fed("Prod", 0, 1, lambda tf, c: tf.reduce_prod(x(tf), c)),
    Fed("All", 0, 1, lambda tf, c: tf.reduce_all(x(tf) > 1.0, c)),
    Fed("Any", 0, 1, lambda tf, c: tf.reduce_any(x(tf) > 1.0, c)),
    Fed("ArgMax", 0, 1, lambda tf, c: tf.argmax(x(tf), c)),
    Fed("ArgMin", 0, 1, lambda tf, c: tf.argmin(x(tf), c)),
    Fed("Split", 0, 1, lambda tf, c: tf.split(tf.ones([4, 2]), 2, c)),
    Fed("SplitV", [1, 1], [2, 0], lambda tf, c: tf.split(x(tf), c, 0)),
    Fed("SplitV", 1, 0, lambda tf, c: tf.split(tf.ones([3, 3]), [1, 2], c), why="axis"),
    Fed("GatherV2", 0, 1,
        lambda tf, c: tf.raw_ops.GatherV2(params=x(tf), indices=[0, 1], axis=c)),
    Fed("OneHot", 2, 4, lambda tf, c: tf.one_hot([0, 1], c)),
    Fed("Cumsum", 0, 1, lambda tf, c: tf.cumsum(x(tf), c)),
    Fed("Cumprod", 0, 1, lambda tf, c: tf.cumprod(x(tf), c)),
    Fed("Pad", [[0, 0], [1, 0]], [[1, 0], [0, 0]],
        lambda tf, c: tf.raw_ops.Pad(input=x(tf), paddings=c)),
    Fed("PadV2", [[0, 0], [1, 0]], [[1, 0], [0, 0]],
        lambda tf, c: tf.raw_ops.PadV2(input=x(tf), paddings=c, constant_values=7.0)),
    Fed("MirrorPad", [[0, 0], [1, 0]], [[1, 0], [0, 0]],
        lambda tf, c: tf.raw_ops.MirrorPad(input=x(tf), paddings=c, mode="REFLECT")),
    Fed("MirrorPadGrad", [[0, 0], [1, 0]], [[1, 0], [0, 0]],
        lambda tf, c: tf.raw_ops.MirrorPadGrad(input=x(tf), paddings=c, mode="SYMMETRIC")),
    Fed("ReverseV2", [0], [1], lambda tf, c: tf.reverse(x(tf), c)),
    Fed("BroadcastTo", [2, 3], [3, 2], lambda tf, c: tf.broadcast_to(1.0, c)),
    Fed("TopKV2", 1, 2, lambda tf, c: tf.raw_ops.TopKV2(input=x(tf), k=c)),
    Fed("InTopKV2", 1, 2,
        lambda tf, c: tf.raw_ops.InTopKV2(predictions=x(tf), targets=[0, 1], k=c)),
    Fed("UnsortedSegmentSum", 2, 3,
        lambda tf, c: tf.raw_ops.UnsortedSegmentSum(
            data=x(tf), segment_ids=[0, 1], num_segments=c)),
    *(Fed(f"SparseSegment{kind}WithNumSegments", 2, 3,
          lambda tf, c, kind=kind: getattr(tf.raw_ops, f"SparseSegment{kind}WithNumSegments")(
              data=x(tf), indices=[0, 1], segment_ids=[0, 1], num_segments=c))
      for kind in ("Sum", "Mean", "SqrtN")),
    *(Fed(f"SparseSegment{kind}Grad", 2, 3,
          lambda tf, c, kind=kind: getattr(tf.raw_ops, f"SparseSegment{kind}Grad")(
              grad=x(tf), indices=[0, 1], segment_ids=[0, 1], output_dim0=c))
      for kind in ("Sum", "Mean", "SqrtN")),
    Fed("ScatterNd", [4], [3],
        lambda tf, c: tf.raw_ops.ScatterNd(indices=[[1]], updates=[2.0], shape=c)),
    Fed("MatrixDiagV3", 0, 1, lambda tf, c: tf.raw_ops.MatrixDiagV3(
        diagonal=x(tf), k=c, num_rows=-1, num_cols=-1, padding_value=0.0)),
    Fed("MatrixDiagPartV3", 0, 1, lambda tf, c: tf.raw_ops.MatrixDiagPartV3(
        input=x(tf), k=c, padding_value=0.0)),
    Fed("MatrixSetDiagV3", 0, 1, lambda tf, c: tf.raw_ops.MatrixSetDiagV3(
        input=x(tf), diagonal=[7.0, 8.0], k=c)),
    Fed("Conv2DBackpropInput", [1, 3, 3, 1], [2, 3, 3, 1],
        lambda tf, c: conv(tf, "Conv2DBackpropInput", input_sizes=c, filter=FILTER,
                           out_backprop=tf.placeholder_with_default(
                               np.ones((2, 2, 2, 1), np.float32), None))),
    Fed("Conv2DBackpropFilter", [1, 1, 1, 1], [2, 2, 1, 1],
        lambda tf, c: conv(tf, "Conv2DBackpropFilter", input=IMAGE, filter_sizes=c,
                           out_backprop=tf.placeholder_with_default(
                               np.ones((1, 1, 1, 1), np.float32), None))),
    Fed("AvgPoolGrad", [1, 2, 2, 1], [2, 2, 2, 1],
        lambda tf, c: tf.raw_ops.AvgPoolGrad(
            orig_input_shape=c, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="VALID",
            grad=tf.placeholder_with_default(np.ones((2, 1, 1, 1), np.float32), None))),
    Fed("Conv3DBackpropInputV2", [1, 3, 3, 3, 1], [2, 3, 3, 3, 1],
        lambda tf, c: conv3d(tf, "Conv3DBackpropInputV2", (2, 2, 2, 2, 1), input_sizes=c,
                             filter=np.ones((2, 2, 2, 1, 1), np.float32))),
    Fed("Conv3DBackpropFilterV2", [1, 1, 1, 1, 1], [2, 2, 2, 1, 1],
        lambda tf, c: conv3d(tf, "Conv3DBackpropFilterV2", (1, 1, 1, 1, 1), filter_sizes=c,
                             input=np.ones((1, 2, 2, 2, 1), np.float32))),
    Fed("AvgPool3DGrad", [1, 2, 2, 2, 1], [2, 2, 2, 2, 1],
        lambda tf, c: tf.raw_ops.AvgPool3DGrad(
            orig_input_shape=c, ksize=[1, 2, 2, 2, 1], strides=[1] * 5, padding="VALID",
            grad=tf.placeholder_with_default(np.ones((2, 1, 1, 1, 1), np.float32), None))),
    Fed("ReduceJoin", 0, 1, lambda tf, c: tf.raw_ops.ReduceJoin(
        inputs=[["a", "b"], ["c", "d"]], reduction_indices=c)
        if tf is not OURS
        else tf.reduce_join([["a", "b"], ["c", "d"]], c)),
    Fed("QueueDequeueUpToV2", 1, 3, lambda tf, c: dequeued(tf, c)),
    Fed("InvertPermutation", [0, 1], [1, 0], lambda tf, c: tf.invert_permutation(c)),
    Fed("DecodePaddedRaw", 2, 4, lambda tf, c: tf.raw_ops.DecodePaddedRaw(
        input_bytes=["ab", "cdef"], fixed_length=c, out_type=tf.uint8)),
    Fed("DynamicStitch", [0, 1], [0, 2], lambda tf, c: tf.raw_ops.DynamicStitch(
        indices=[c, [1]], data=[[1.0, 2.0], [3.0]])),
    Fed("ParallelDynamicStitch", [0, 1], [0, 2],
        lambda tf, c: tf.raw_ops.ParallelDynamicStitch(
            indices=[c, [1]], data=[[1.0, 2.0], [3.0]])),
    Fed("SparseToDense", [3], [4], lambda tf, c: tf.raw_ops.SparseToDense(
        sparse_indices=[[1]], output_shape=c, sparse_values=[2.0], default_value=0.0)),
    Fed("SparseReduceSum", 0, 1, lambda tf, c: tf.raw_ops.SparseReduceSum(
        input_indices=[[0, 1], [1, 2]], input_values=[2.0, 3.0], input_shape=[2, 3],
        reduction_axes=c)),
    Fed("SparseReduceMax", 0, 1, lambda tf, c: tf.raw_ops.SparseReduceMax(
        input_indices=[[0, 1], [1, 2]], input_values=[2.0, 3.0], input_shape=[2, 3],
        reduction_axes=c)),
    Fed("SparseFillEmptyRows", [2, 3], [3, 3], lambda tf, c: tf.raw_ops.SparseFillEmptyRows(
        indices=[[0, 1]], values=[2.0], dense_shape=tf.cast(c, tf.int64), default_value=7.0)),
    Fed("SparseTensorDenseMatMul", [2, 2], [3, 2],
        lambda tf, c: tf.raw_ops.SparseTensorDenseMatMul(
            a_indices=[[0, 1]], a_values=[2.0], a_shape=tf.cast(c, tf.int64), b=x(tf))),
    Fed("ResizeBilinear", [2, 2], [4, 3],
        lambda tf, c: tf.raw_ops.ResizeBilinear(images=IMAGE, size=c)),
    Fed("ResizeBicubic", [2, 2], [4, 3],
        lambda tf, c: tf.raw_ops.ResizeBicubic(images=IMAGE, size=c)),
    Fed("ResizeArea", [2, 2], [4, 3],
        lambda tf, c: tf.raw_ops.ResizeArea(images=IMAGE, size=c)),
    Fed("CropAndResize", [2, 2], [4, 3],
        lambda tf, c: tf.raw_ops.CropAndResize(
            image=IMAGE, boxes=BOX, box_ind=[0], crop_size=c)),
    Fed("CropAndResizeGradImage", [1, 2, 2, 1], [1, 3, 4, 1],
        lambda tf, c: tf.raw_ops.CropAndResizeGradImage(
            grads=IMAGE, boxes=BOX, box_ind=[0], image_size=c, T=tf.float32)),
    Fed("ResizeNearestNeighbor", [2, 2], [4, 3],
        lambda tf, c: tf.raw_ops.ResizeNearestNeighbor(images=IMAGE, size=c)),
    Fed("ResizeNearestNeighborGrad", [2, 2], [3, 3],
        lambda tf, c: tf.raw_ops.ResizeNearestNeighborGrad(grads=IMAGE, size=c)),
    Fed("DepthwiseConv2dNativeBackpropInput", [1, 3, 3, 1], [2, 3, 3, 1],
        lambda tf, c: conv(tf, "DepthwiseConv2dNativeBackpropInput", input_sizes=c,
                           filter=FILTER, out_backprop=tf.placeholder_with_default(
                               np.ones((2, 2, 2, 1), np.float32), None))),
    Fed("DepthwiseConv2dNativeBackpropFilter", [1, 1, 1, 1], [2, 2, 1, 1],
        lambda tf, c: conv(tf, "DepthwiseConv2dNativeBackpropFilter", input=IMAGE,
                           filter_sizes=c, out_backprop=tf.placeholder_with_default(
                               np.ones((1, 1, 1, 1), np.float32), None))),
    # What comes after.
    Fed("Squeeze", [1, 2], [1, 3], lambda tf, c: tf.squeeze(tf.fill(c, 1.0))),
    Fed("MatMul", [2, 3], [3, 2], lambda tf, c: tf.matmul(
        tf.reshape(x(tf), c), tf.placeholder_with_default(F, [None, 3]))),
    Fed("Shape", [2, 3], [3, 2],
        lambda tf, c: tf.raw_ops.Shape(input=tf.reshape(x(tf), c))),
    Fed("Shape", [2, 3], [3, 2], lambda tf, c: tf.shape(tf.reshape(x(tf), c)), why="constant"),
    Fed("ZerosLike", [2, 3], [3, 2],
        lambda tf, c: tf.raw_ops.ZerosLike(x=tf.reshape(x(tf), c))),
    Fed("AddN", [2, 3], [3, 2],
        lambda tf, c: tf.add_n([tf.reshape(x(tf), c), tf.reshape(x(tf), c)])),
    Fed("Switch", [2, 3], [3, 2], lambda tf, c: tf.cond(
        tf.placeholder_with_default(True, []),
        lambda: tf.reshape(x(tf), c) * 2.0, lambda: tf.reshape(x(tf), c))),
    Fed("Enter", [2, 3], [3, 2], lambda tf, c: tf.while_loop(
        lambda i, _: i < 2, lambda i, a: (i + 1, a + 1.0), [0, tf.reshape(x(tf), c)])[1]),
    # Along the way back.
    Fed("Transpose", [0, 1], [1, 0], lambda tf, c: tf.gradients(
        tf.transpose(x(tf), c), tf.get_default_graph().get_tensor_by_name("Const:0"),
        tf.placeholder_with_default(F.reshape(3, 2), None)), why="gradient"),
    Fed("ConcatV2", 0, 1, lambda tf, c: tf.gradients(
        tf.concat([x(tf), x(tf)], c), tf.get_default_graph().get_tensor_by_name("Const:0"),
        tf.placeholder_with_default(np.arange(12, dtype=np.float32).reshape(2, 6), None)),
        why="gradient"),
    Fed("Tile", [1, 2], [2, 1], lambda tf, c: tf.gradients(
        tf.tile(x(tf), c) * 2.0, tf.get_default_graph().get_tensor_by_name("Const:0")),
        why="gradient"),
    Fed("ExpandDims", 0, 2, lambda tf, c: tf.gradients(
        tf.expand_dims(x(tf), c) * 2.0, tf.get_default_graph().get_tensor_by_name("Const:0")),
        why="gradient"),
]  # fmt: skip


def row_id(row: Fed) -> str:
    return f"{row.op_type}-{row.why}" if row.why else row.op_type


@pytest.mark.tensorflow
@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_fed(tf: Any, row: Fed) -> None:
    with tf.Graph().as_default():
        constant = tf.constant(row.value, name="decides")
        fetches = flatten(row.build(tf.compat.v1, constant))
        with tf.Session() as session:
            theirs = session.run(fetches, {constant: row.fed})
        types = {op.type for op in tf.get_default_graph().get_operations()}
    assert row.op_type in types or row.why in ("constant",), sorted(types)
    with Graph().as_default():
        constant = OURS.constant(row.value, name="decides")
        fetches = flatten(row.build(OURS, constant))
        with Session() as session:
            ours = session.run(fetches, {constant: row.fed})
    for mine, other in zip(ours, theirs, strict=True):
        if row.is_random:
            assert mine.shape == other.shape
        else:
            assert_same_value(mine, other, 1e-6, row_id(row))


def test_one_run_after_the_other() -> None:
    """What is fed holds for its run alone."""
    with Graph().as_default(), Session() as session:
        shape = OURS.constant([2, 3])
        result = OURS.reshape(OURS.constant(F), shape) * 1.0
        fed = [None, {shape: [3, 2]}, {shape: [1, 6]}, None, {shape: [6, 1]}]
        shapes = [session.run(result, feeds).shape for feeds in fed]
    assert shapes == [(2, 3), (3, 2), (1, 6), (2, 3), (6, 1)]


@pytest.mark.tensorflow
@pytest.mark.parametrize("make", [
    lambda tf: tf.constant([1, 2]) + tf.constant([1, 1]),
    lambda tf: tf.stack([tf.constant(2), 3]),
    lambda tf: tf.raw_ops.Shape(input=tf.constant(F)),
    lambda tf: tf.identity(tf.constant([2, 3])),
], ids=["sum", "packed", "shape", "identity"])  # fmt: skip
def test_what_follows_from_constants_may_be_fed(tf: Any, make: Any) -> None:
    def run(names: Any, graph: Any, session: Any) -> Any:
        with graph.as_default():
            shape = make(names)
            result = names.reshape(names.constant(F), shape)
            with session() as running:
                return running.run(result, {shape: [3, 2]}).tolist()

    ours = run(OURS, Graph(), Session)
    assert ours == run(tf.compat.v1, tf.Graph(), tf.Session) == F.reshape(3, 2).tolist()


def asked_in_rules() -> set[str]:
    """The op types whose shape rule reads a value, in any graph of the tables of cases."""
    found: set[str] = set()
    note = pytest.MonkeyPatch()

    def noting(name: str) -> Any:
        plain = getattr(ShapeContext, name)

        def ask(context: ShapeContext, index: int) -> Any:
            found.add(context.op_type)
            return plain(context, index)

        note.setattr(ShapeContext, name, ask)

    noting("constant")
    noting("constant_as_shape")
    try:
        for case in all_cases():
            with Graph().as_default():
                try:
                    case.build(OURS)
                except (OpError, ValueError, TypeError, LookupError):
                    assert case.fails == "build", case.id
    finally:
        note.undo()
    return found


def test_every_op_type_that_reads_a_value_is_fed_here() -> None:
    tried = {row.op_type for row in ROWS}
    # Concat is ConcatV2 with its axis in front; what `dequeue_many` takes may not be fed (below).
    assert sorted(asked_in_rules() - tried) == ["Concat", "QueueDequeueManyV2"]


@pytest.mark.tensorflow
def test_what_the_graph_was_built_by_may_not_be_fed(tf: Any) -> None:
    def refused(names: Any, session: Any, build: Any) -> bool:
        constant = names.constant(1)
        fetch = build(names, constant)
        with session() as running, pytest.raises(ValueError, match=r"Const:0 may not be fed"):
            running.run(fetch, {constant: 0})
        return names.get_default_graph().is_feedable(constant)

    builds = [
        lambda names, c: names.FIFOQueue(3, [names.int32], [[]]).dequeue_many(c),
        lambda names, c: names.gradients(
            names.reduce_sum(v := names.constant(F), c), [v]),
        lambda names, c: names.gradients(
            names.gather(v := names.constant(F), [0, 1], axis=c), [v]),
    ]  # fmt: skip
    for build in builds:
        with tf.Graph().as_default():
            assert refused(tf.compat.v1, tf.Session, build) is False
        with Graph().as_default():
            assert refused(OURS, Session, build) is False


def test_what_a_value_was_found_from_may_not_be_fed_either() -> None:
    with Graph().as_default() as graph:
        first, second, other = (OURS.constant([n]) for n in (1, 2, 3))
        total = first + second
        shaped = OURS.raw_ops.Shape(input=other)
        assert constants.constant_value(total).tolist() == [3]
        assert constants.constant_value(shaped).tolist() == [1]
        feedable = [graph.is_feedable(t) for t in (first, second, total, shaped, other)]
        assert feedable == [False, False, False, False, True]
        assert constants.constant_value(OURS.placeholder(OURS.float32, [])) is None
