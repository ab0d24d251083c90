"""Slices, `t[...]`, gather, scatter, one-hot, unique."""

import numpy as np
from op_cases import Case

F = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
I32 = np.array([[1, -2, 3], [4, 5, -6]], np.int32)
FEED = {"x:0": F}


def known(tf):
    return tf.constant(F)


def partly(tf):
    return tf.placeholder(tf.float32, [None, 4, None], name="x")


def free(tf):
    return tf.placeholder(tf.float32, name="x")


INDICES = {
    "int": lambda t, tf: t[1],
    "negative": lambda t, tf: t[-1],
    "two": lambda t, tf: t[1, 2],
    "all": lambda t, tf: t[0, 1, -1],
    "range": lambda t, tf: t[1:3],
    "open": lambda t, tf: t[1:, :2],
    "step": lambda t, tf: t[:, ::2],
    "step_from": lambda t, tf: t[:, 1::2, 4:0:-2],
    "backwards": lambda t, tf: t[::-1, 3::-1],
    "empty": lambda t, tf: t[2:1],
    "beyond": lambda t, tf: t[1:10, -9:2],
    "ellipsis": lambda t, tf: t[..., 1],
    "ellipsis_mid": lambda t, tf: t[0, ..., 2:4],
    "ellipsis_only": lambda t, tf: t[...],
    "ellipsis_nothing": lambda t, tf: t[0, 1, ..., 2],
    "newaxis": lambda t, tf: t[tf.newaxis],
    "newaxis_mid": lambda t, tf: t[:, tf.newaxis, 1:],
    "newaxis_last": lambda t, tf: t[..., tf.newaxis],
    "newaxis_shrink": lambda t, tf: t[1, tf.newaxis, ..., tf.newaxis, 0],
    "nothing": lambda t, tf: t[()],
    "numpy_int": lambda t, tf: t[np.int64(1)],
    "tensor": lambda t, tf: t[tf.constant(1)],
    "tensor_64": lambda t, tf: t[tf.constant(1, tf.int64)],
    "tensor_range": lambda t, tf: t[tf.constant(1) :, 0],
    "tensor_64_range": lambda t, tf: t[tf.constant(1, tf.int64) : 3],
    "twice": lambda t, tf: t[1][2],
}
KINDS = {"known": (known, {}), "partly": (partly, FEED), "free": (free, FEED)}


def indexed(make, index):
    return lambda tf: index(make(tf), tf)


CASES = [
    Case(f"getitem/{kind}/{name}", ("StridedSlice",), indexed(make, index), feeds=feeds)
    for name, index in INDICES.items()
    for kind, (make, feeds) in KINDS.items()
]
CASES += [
    Case("slice/known", ("Slice",), lambda tf: tf.slice(known(tf), [1, 0, 2], [2, 3, -1])),
    Case("slice/empty", ("Slice",), lambda tf: tf.slice([1, 2, 3], [3], [0])),
    Case(
        "slice/partly",
        ("Slice",),
        lambda tf: tf.slice(partly(tf), [1, 0, 0], [-1, 2, 1]),
        feeds=FEED,
    ),
    Case(
        "slice/fed",
        ("Slice",),
        lambda tf: tf.slice([1, 2, 3], tf.placeholder(tf.int32, [1], name="x"), [2]),
        feeds={"x:0": np.int32([1])},
    ),
    Case("strided_slice", ("StridedSlice",), lambda tf: tf.strided_slice([1, 2, 3], [0], [2])),
    Case(
        "strided_slice/masks",
        ("StridedSlice",),
        lambda tf: tf.strided_slice(
            known(tf), [1, 0, 3], [9, 0, 0], [1, 1, -1], begin_mask=2, end_mask=6, name="s"
        ),
    ),
    Case(
        "strided_slice/fed",
        ("StridedSlice",),
        lambda tf: tf.strided_slice(known(tf), tf.placeholder(tf.int32, [1], name="x"), [3], [1]),
        feeds={"x:0": np.int32([-2])},
    ),
    Case(
        "getitem/fed_index",
        ("StridedSlice",),
        lambda tf: known(tf)[:, tf.placeholder(tf.int32, [], name="x")],
        feeds={"x:0": np.int32(-1)},
    ),
    Case("gather/rows", ("GatherV2",), lambda tf: tf.gather(known(tf), [2, 0, 2])),
    Case("gather/scalar", ("GatherV2",), lambda tf: tf.gather(known(tf), 1)),
    Case("gather/matrix", ("GatherV2",), lambda tf: tf.gather([1, 2, 3], [[0, 2], [1, 1]])),
    Case("gather/axis", ("GatherV2",), lambda tf: tf.gather(known(tf), [3, 0], axis=1)),
    Case("gather/last", ("GatherV2",), lambda tf: tf.gather(known(tf), [[3], [0]], axis=-1)),
    Case("gather/int64", ("GatherV2",), lambda tf: tf.gather(known(tf), np.array([1]))),
    Case("gather/empty", ("GatherV2",), lambda tf: tf.gather(known(tf), tf.zeros([0], tf.int32))),
    Case("gather/string", ("GatherV2",), lambda tf: tf.gather(["a", "b"], [1, 0])),
    Case(
        "gather/partly", ("GatherV2",), lambda tf: tf.gather(partly(tf), [1, 0], axis=2), feeds=FEED
    ),
    Case("gather/free", ("GatherV2",), lambda tf: tf.gather(free(tf), [[1, 0]]), feeds=FEED),
    Case(
        "gather/batch",
        ("GatherV2",),
        lambda tf: tf.gather(known(tf), [[0, 3], [1, 1], [2, 0]], batch_dims=1),
    ),
    Case(
        "gather/batch_axis",
        ("GatherV2",),
        lambda tf: tf.gather(known(tf), [[0, 3], [1, 1], [2, 0]], axis=2, batch_dims=1),
    ),
    Case(
        "gather/v1_op",
        ("Gather",),
        lambda tf: tf.raw_ops.Gather(params=known(tf), indices=[2, 1]),
    ),
    Case("getitem/string", ("StridedSlice",), lambda tf: tf.constant(["a", "b"])[1]),
    Case("gather/one_string", ("GatherV2",), lambda tf: tf.gather(["a", "b"], 1)),
    Case("gather_nd/one_string", ("GatherNd",), lambda tf: tf.gather_nd(["a", "b"], [1])),
    Case("gather_nd/points", ("GatherNd",), lambda tf: tf.gather_nd(I32, [[0, 1], [1, 2]])),
    Case("gather_nd/rows", ("GatherNd",), lambda tf: tf.gather_nd(known(tf), [[[2]], [[0]]])),
    Case(
        "gather_nd/scalar",
        ("GatherNd",),
        lambda tf: tf.gather_nd(known(tf), [1, 2, 3]),
        grad=False,  # TensorFlow's gradient refuses a single index
    ),
    Case(
        "gather_nd/whole",
        ("GatherNd",),
        lambda tf: tf.gather_nd(I32, tf.zeros([2, 0], tf.int32)),
    ),
    Case("gather_nd/free", ("GatherNd",), lambda tf: tf.gather_nd(free(tf), [[0, 1]]), feeds=FEED),
    Case("scatter_nd", ("ScatterNd",), lambda tf: tf.scatter_nd([[1], [3]], [5.0, 6.0], [5])),
    Case("scatter_nd/adds", ("ScatterNd",), lambda tf: tf.scatter_nd([[1], [1]], [5, 6], [3])),
    Case(
        "scatter_nd/rows",
        ("ScatterNd",),
        lambda tf: tf.scatter_nd([[1], [0]], tf.constant(I32), [3, 3]),
    ),
    Case("one_hot/plain", ("OneHot",), lambda tf: tf.one_hot([0, 2, -1, 7], 3)),
    Case("one_hot/scalar", ("OneHot",), lambda tf: tf.one_hot(1, 3)),
    Case("one_hot/axis", ("OneHot",), lambda tf: tf.one_hot([[0, 2], [1, 1]], 3, axis=0)),
    Case("one_hot/middle", ("OneHot",), lambda tf: tf.one_hot([[0, 2], [1, 1]], 3, axis=1)),
    Case("one_hot/values", ("OneHot",), lambda tf: tf.one_hot([0, 2], 3, 5, 1)),
    Case("one_hot/on", ("OneHot",), lambda tf: tf.one_hot([0], 3, on_value=5.0)),
    Case("one_hot/dtype", ("OneHot",), lambda tf: tf.one_hot([0, 2], 3, dtype=tf.int64)),
    Case(
        "one_hot/bool",
        ("OneHot",),
        lambda tf: tf.one_hot([0, 2], 3, on_value=True, off_value=False, dtype=tf.bool),
    ),
    Case(
        "one_hot/fed",
        ("OneHot",),
        lambda tf: tf.one_hot(tf.placeholder(tf.int64, [None], name="x"), 4),
        feeds={"x:0": np.array([3, 0])},
    ),
    Case("sequence_mask", ("Range", "Less"), lambda tf: tf.sequence_mask([1, 3], 5)),
    Case("sequence_mask/longest", ("Max",), lambda tf: tf.sequence_mask([[1], [3]])),
    Case("sequence_mask/type", ("Cast",), lambda tf: tf.sequence_mask([1, 3], 4, tf.float32)),
    Case("boolean_mask", ("Where",), lambda tf: tf.boolean_mask([1, 2, 3], [True, False, True])),
    Case(
        "boolean_mask/rows",
        ("Where",),
        lambda tf: tf.boolean_mask(partly(tf), [False, True, True]),
        feeds=FEED,
    ),
    Case(
        "boolean_mask/axis",
        ("Where",),
        lambda tf: tf.boolean_mask(known(tf), [True, False, True, True], axis=1),
    ),
    Case(
        "boolean_mask/matrix",
        ("Where",),
        lambda tf: tf.boolean_mask(I32, I32 > 0),
    ),
    Case("getitem/mask", ("Where",), lambda tf: known(tf)[tf.constant([True, False, True])]),
    Case("unique", ("Unique",), lambda tf: list(tf.unique([5, 3, 5, 1, 3]))),
    Case("unique/string", ("Unique",), lambda tf: list(tf.unique(["b", "a", "b"]))),
    Case("unique/empty", ("Unique",), lambda tf: list(tf.unique(tf.zeros([0])))),
    Case(
        "unique_with_counts",
        ("UniqueWithCounts",),
        lambda tf: list(tf.unique_with_counts([5, 3, 5, 1, 3], tf.int64)),
    ),
]


def sized(size):
    """A program that makes a tensor of a size asked from a partly known shape."""
    return lambda tf: size(tf, partly(tf))


PARTLY_KNOWN = {
    "items": lambda tf, x: tf.zeros([tf.shape(x)[0], tf.shape(x)[1]]),
    "reshape": lambda tf, x: tf.reshape(x, [-1, tf.shape(x)[1]]),
    "tail": lambda tf, x: tf.zeros(tf.shape(x)[1:]),
    "joined": lambda tf, x: tf.zeros(tf.concat([tf.shape(x)[1:], [5]], 0)),
    "unstacked": lambda tf, x: tf.zeros(tf.stack(tf.unstack(tf.shape(x))[1:])),
    "product": lambda tf, x: tf.ones([tf.shape(x)[1] * 2]),
    "range": lambda tf, x: tf.range(tf.shape(x)[-2]),
    "tile": lambda tf, x: tf.tile([[1.0]], [tf.shape(x)[0], tf.shape(x)[1]]),
    "one_hot": lambda tf, x: tf.one_hot([1], tf.shape(x)[1]),
    "slice": lambda tf, x: tf.slice(x, [0, 0, 0], [tf.shape(x)[0], 2, -1]),
    "pad": lambda tf, x: tf.pad(x, [[0, tf.shape(x)[1]], [0, 0], [0, 0]]),
    "gather": lambda tf, x: tf.zeros(tf.gather(tf.shape(x), [1, 0])),
    "size": lambda tf, x: tf.reshape(x, [tf.size(x)]),
}
CASES += [
    Case(f"partly_known/{name}", (), sized(size), feeds=FEED) for name, size in PARTLY_KNOWN.items()
]

CASES += [
    Case(
        "getitem/out_of_bounds",
        ("StridedSlice",),
        lambda tf: known(tf)[3],
        fails="build",
        match="slice index 3 of dimension 0 out of bounds",
    ),
    Case(
        "getitem/out_of_bounds_run",
        ("StridedSlice",),
        lambda tf: partly(tf)[:, :, 5],
        feeds=FEED,
        fails="run",
        match="slice index 5 of dimension 2 out of bounds",
    ),
    Case("getitem/too_many", ("StridedSlice",), lambda tf: known(tf)[0, 0, 0, 0], fails="build"),
    Case("getitem/float", ("StridedSlice",), lambda tf: known(tf)[1.5], fails="build", match="1.5"),
    Case(
        "getitem/zero_step",
        ("StridedSlice",),
        lambda tf: known(tf)[::0],
        fails="build",
        match="strides[0] must be non-zero",
    ),
    Case(
        "slice/beyond_run",
        ("Slice",),
        lambda tf: tf.slice(free(tf), [0, 0, 1], [1, 1, 5]),
        feeds=FEED,
        fails="run",
        match="Expected size[2] in [0, 4], but got 5",
    ),
    Case(
        "gather/beyond",
        ("GatherV2",),
        lambda tf: tf.gather(tf.constant(F), [0, 3]),
        fails="run",
        match="indices[1] = 3 is not in [0, 3)",
    ),
    Case(
        "gather/negative",
        ("GatherV2",),
        lambda tf: tf.gather(tf.constant(F), -1),
        fails="run",
        match="-1 is not in [0, 3)",
    ),
    Case("gather/scalar_params", ("GatherV2",), lambda tf: tf.gather(1.0, 0), fails="build"),
    Case(
        "gather_nd/beyond",
        ("GatherNd",),
        lambda tf: tf.gather_nd(I32, [[0, 1], [1, 3]]),
        fails="run",
        match="indices[1] = [1, 3] does not index into param shape [2,3]",
    ),
    Case(
        "gather_nd/deep",
        ("GatherNd",),
        lambda tf: tf.gather_nd(I32, [[0, 1, 0]]),
        fails="build",
        match="[2,3]",
    ),
    Case(
        "scatter_nd/beyond",
        ("ScatterNd",),
        lambda tf: tf.scatter_nd([[5]], [1.0], [3]),
        fails="run",
        match="[5] does not index into shape [3]",
    ),
    Case(
        "scatter_nd/misfit",
        ("ScatterNd",),
        lambda tf: tf.scatter_nd([[1]], [[1.0, 2.0]], [3]),
        fails="build",
        match="[1,2]",
    ),
    Case(
        "one_hot/types",
        ("OneHot",),
        lambda tf: tf.one_hot([0], 3, on_value=1, off_value=0.5),
        fails="build",
    ),
]
