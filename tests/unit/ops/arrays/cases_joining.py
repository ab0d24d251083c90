"""Concatenating, stacking, splitting, tiling, padding, reversing; strings joined."""

import numpy as np
from op_cases import Case

F = np.arange(24, dtype=np.float32).reshape(4, 6)
I32 = np.array([[1, -2, 3], [4, 5, -6]], np.int32)
FEED = {"x:0": F}


def partly(tf):
    return tf.placeholder(tf.float32, [None, 6], name="x")


def free(tf):
    return tf.placeholder(tf.float32, name="x")


CASES = [
    Case("concat/rows", ("ConcatV2",), lambda tf: tf.concat([tf.constant(I32), I32], 0)),
    Case("concat/three", ("ConcatV2",), lambda tf: tf.concat([I32, I32, I32], axis=1)),
    Case("concat/last", ("ConcatV2",), lambda tf: tf.concat([I32, tf.constant(I32)], -1)),
    Case("concat/one", ("Identity",), lambda tf: tf.concat([tf.constant([1])], 0)),
    Case("concat/tensor", ("Identity",), lambda tf: tf.concat(tf.constant([1]), 0, name="k")),
    Case("concat/mixed", ("ConcatV2",), lambda tf: tf.concat([tf.constant([1.0]), [2]], 0)),
    Case("concat/empty", ("ConcatV2",), lambda tf: tf.concat([tf.zeros([0, 6]), F], 0)),
    Case("concat/string", ("ConcatV2",), lambda tf: tf.concat([["a"], ["b", "c"]], 0)),
    Case("concat/partly", ("ConcatV2",), lambda tf: tf.concat([partly(tf), F], 0), feeds=FEED),
    Case("concat/free", ("ConcatV2",), lambda tf: tf.concat([free(tf), F], 1), feeds=FEED),
    Case(
        "concat/fed_axis",
        ("ConcatV2",),
        lambda tf: tf.concat([F, F], tf.placeholder(tf.int32, [], name="x")),
        feeds={"x:0": np.int32(1)},
    ),
    Case(
        "concat/v1_op",
        ("Concat",),
        lambda tf: tf.raw_ops.Concat(concat_dim=1, values=[tf.constant(I32), I32]),
    ),
    Case("stack/python", ("Const",), lambda tf: tf.stack([1, 2])),
    Case("stack/scalars", ("Pack",), lambda tf: tf.stack([tf.constant(1), 2])),
    Case("stack/strings", ("Pack",), lambda tf: tf.stack([tf.constant("a"), "b"])),
    Case("stack/rows", ("Pack",), lambda tf: tf.stack([tf.constant(I32), tf.constant(I32)])),
    Case("stack/axis", ("Pack",), lambda tf: tf.stack([tf.constant(I32), I32], axis=1)),
    Case("stack/last", ("Pack",), lambda tf: tf.stack([tf.constant(I32), I32], axis=-1)),
    Case("stack/partly", ("Pack",), lambda tf: tf.stack([partly(tf), F], axis=2), feeds=FEED),
    Case("stack/free", ("Pack",), lambda tf: tf.stack([free(tf), F], axis=1), feeds=FEED),
    Case("unstack/rows", ("Unpack",), lambda tf: tf.unstack(tf.constant(I32))),
    Case("unstack/axis", ("Unpack",), lambda tf: tf.unstack(tf.constant(I32), axis=-1)),
    Case("unstack/one", ("Unpack",), lambda tf: tf.unstack(tf.constant([[1, 2]]))),
    Case("unstack/vector", ("Unpack",), lambda tf: tf.unstack([1.0, 2.0])),
    Case("unstack/strings", ("Unpack",), lambda tf: tf.unstack(["a", "b"])),
    Case("unstack/num", ("Unpack",), lambda tf: tf.unstack(free(tf), num=6, axis=1), feeds=FEED),
    Case("split/equal", ("Split",), lambda tf: tf.split(tf.constant(F), 2)),
    Case("split/axis", ("Split",), lambda tf: tf.split(tf.constant(F), 3, axis=-1)),
    Case("split/one", ("Split",), lambda tf: tf.split(tf.constant(F), 1)),
    Case("split/partly", ("Split",), lambda tf: tf.split(partly(tf), 2), feeds=FEED),
    Case("split/sizes", ("SplitV",), lambda tf: tf.split(tf.constant(F), [1, 3], 0)),
    Case("split/rest", ("SplitV",), lambda tf: tf.split(tf.constant(F), [2, -1, 1], 1)),
    Case("split/zero", ("SplitV",), lambda tf: tf.split(tf.constant(F), [0, 4])),
    Case("split/one_size", ("SplitV",), lambda tf: tf.split(tf.constant(F), [4])),
    Case("split/sizes_partly", ("SplitV",), lambda tf: tf.split(partly(tf), [1, 3]), feeds=FEED),
    Case("tile/matrix", ("Tile",), lambda tf: tf.tile(tf.constant(I32), [2, 1])),
    Case("tile/zero", ("Tile",), lambda tf: tf.tile([1.0, 2.0], [0])),
    Case("tile/partly", ("Tile",), lambda tf: tf.tile(partly(tf), [1, 2]), feeds=FEED),
    Case(
        "tile/fed",
        ("Tile",),
        lambda tf: tf.tile([[1, 2]], tf.placeholder(tf.int32, [2], name="x")),
        feeds={"x:0": np.int32([3, 2])},
    ),
    Case("pad/zeros", ("Pad",), lambda tf: tf.pad(tf.constant(I32), [[1, 0], [2, 1]])),
    Case("pad/float", ("Pad",), lambda tf: tf.pad(F, [[0, 0], [1, 1]])),
    Case("pad/partly", ("Pad",), lambda tf: tf.pad(partly(tf), [[1, 1], [0, 2]]), feeds=FEED),
    Case(
        "pad/floats",
        ("PadV2",),
        lambda tf: tf.pad(tf.constant(F), [[1, 0], [0, 2]], constant_values=9.0),
    ),
    Case("reverse/floats", ("ReverseV2",), lambda tf: tf.reverse(tf.constant(F), [-1])),
    Case(
        "concat-old/floats",
        ("Concat",),
        lambda tf: tf.raw_ops.Concat(concat_dim=1, values=[tf.constant(F), tf.constant(F)]),
    ),
    Case("pad/value", ("PadV2",), lambda tf: tf.pad([1, 2], [[1, 2]], constant_values=9)),
    Case("pad/reflect", ("MirrorPad",), lambda tf: tf.pad(F, [[2, 1], [0, 3]], mode="REFLECT")),
    Case("pad/symmetric", ("MirrorPad",), lambda tf: tf.pad(F, [[2, 1], [0, 3]], "symmetric")),
    Case(
        "pad/fed",
        ("Pad",),
        lambda tf: tf.pad([1, 2], tf.placeholder(tf.int32, [1, 2], name="x")),
        feeds={"x:0": np.int32([[1, 2]])},
    ),
    Case("reverse/rows", ("ReverseV2",), lambda tf: tf.reverse(tf.constant(I32), [0])),
    Case("reverse/both", ("ReverseV2",), lambda tf: tf.reverse(tf.constant(I32), [0, -1])),
    Case("reverse/none", ("ReverseV2",), lambda tf: tf.reverse([1, 2], tf.zeros([0], tf.int32))),
    Case("as_string/int", ("AsString",), lambda tf: tf.as_string([1, -20])),
    Case("as_string/float", ("AsString",), lambda tf: tf.as_string([1.5, -2e10, np.nan])),
    Case("as_string/digits", ("AsString",), lambda tf: tf.as_string([1.23456], precision=2)),
    Case("as_string/width", ("AsString",), lambda tf: tf.as_string([7], width=4, fill="0")),
    Case("as_string/scientific", ("AsString",), lambda tf: tf.as_string([12.5], scientific=True)),
    Case("as_string/bool", ("AsString",), lambda tf: tf.as_string([True, False])),
    Case("string_join", ("StringJoin",), lambda tf: tf.string_join([["a", "b"], "c"], "-")),
    Case("string_join/scalars", ("StringJoin",), lambda tf: tf.string_join(["a", "b"])),
    Case("reduce_join/all", ("ReduceJoin",), lambda tf: tf.reduce_join([["a", "b"], ["c", "d"]])),
    Case(
        "reduce_join/axis",
        ("ReduceJoin",),
        lambda tf: tf.reduce_join([["a", "b"], ["c", "d"]], axis=0, separator=","),
    ),
    Case(
        "reduce_join/order",
        ("ReduceJoin",),
        lambda tf: tf.reduce_join([["a", "b"], ["c", "d"]], axis=[0, 1]),
    ),
    Case(
        "reduce_join/keep",
        ("ReduceJoin",),
        lambda tf: tf.reduce_join([["a", "b"]], axis=[1], keep_dims=True),
    ),
]
CASES += [
    Case(
        "concat/misfit",
        ("ConcatV2",),
        lambda tf: tf.concat([tf.constant(I32), tf.constant(F)], 0),
        fails="build",
    ),
    Case(
        "concat/misfit_shape",
        ("ConcatV2",),
        lambda tf: tf.concat([tf.zeros([2, 3]), tf.zeros([2, 4])], 0),
        fails="build",
        match="[2,3] and [2,4]",
    ),
    Case(
        "concat/ranks",
        ("ConcatV2",),
        lambda tf: tf.concat([tf.zeros([2, 3]), tf.zeros([2])], 0),
        fails="build",
        match="[2,3], [2]",
    ),
    Case(
        "concat/axis", ("ConcatV2",), lambda tf: tf.concat([I32, I32], 2), fails="build", match="2"
    ),
    Case("concat/scalars", ("ConcatV2",), lambda tf: tf.concat([1, 2], 0), fails="build"),
    Case(
        "stack/misfit",
        ("Pack",),
        lambda tf: tf.stack([tf.zeros([2]), tf.zeros([3])]),
        fails="build",
        match="[2] and [3]",
    ),
    Case("unstack/unknown", ("Unpack",), lambda tf: tf.unstack(partly(tf)), fails="build"),
    Case(
        "split/uneven",
        ("Split",),
        lambda tf: tf.split(tf.constant(F), 3),
        fails="build",
        match="[4,6]",
    ),
    Case(
        "split/sum",
        ("SplitV",),
        lambda tf: tf.split(tf.constant(F), [1, 2]),
        fails="build",
        match="[1, 2]",
    ),
    Case(
        "split/sum_run",
        ("SplitV",),
        lambda tf: tf.split(partly(tf), [1, 2]),
        feeds=FEED,
        fails="run",
        match="4",
    ),
    Case("pad/rows", ("Pad",), lambda tf: tf.pad(I32, [[1, 1]]), fails="build", match="[2,3]"),
    Case(
        "pad/reflect_far",
        ("MirrorPad",),
        lambda tf: tf.pad([1, 2], [[2, 0]], "REFLECT"),
        fails="run",
        match="2, 0 greater than 1",
    ),
    Case("pad/mode", ("Pad",), lambda tf: tf.pad([1, 2], [[2, 0]], "LEFT"), fails="build"),
    Case("tile/short", ("Tile",), lambda tf: tf.tile(I32, [1]), fails="build", match="[2,3]"),
]
