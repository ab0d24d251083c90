"""Sparse tensors: what they are made of, and ops on them."""

import numpy as np
from op_cases import Case

PLACES = [[0, 1], [1, 0], [1, 2], [3, 1]]
VALUES = [2.0, -1.0, 3.0, 0.5]


def sparse(tf, dtype="float32", places=PLACES, values=VALUES, shape=(4, 3)):
    return tf.SparseTensor(places, np.array(values, dtype), list(shape))


def fed(tf, dtype="float32"):
    return tf.SparseTensor(
        tf.placeholder(tf.int64, [None, 2], "i"), tf.placeholder(dtype, [None], "v"),
        tf.placeholder(tf.int64, [2], "s"),
    )  # fmt: skip


def feeds(dtype="float32"):
    return {"i:0": PLACES, "v:0": np.array(VALUES, dtype), "s:0": [4, 3]}


def parts(*tensors):
    return [part for t in tensors for part in (t.indices, t.values, t.dense_shape)]


def each(build, **options):
    """The same of two dtypes, and of fed tensors."""

    def all_of(tf):
        found = [build(tf, sparse(tf, d)) for d in ("float32", "float64")]
        return [*found, build(tf, fed(tf))]

    return all_of


def dense(rows, columns, dtype="float32"):
    return (np.arange(rows * columns) * 0.5 - 1).reshape(rows, columns).astype(dtype)


def product(a, b, rows, columns):
    def build(tf):
        found = []
        for dtype in ("float32", "float64"):
            right = tf.constant(dense(rows, columns, dtype))
            found.append(tf.sparse_tensor_dense_matmul(sparse(tf, dtype), right, a, b))
        right = tf.placeholder(tf.float32, [rows, None], "b")
        return [*found, tf.sparse_tensor_dense_matmul(fed(tf), right, a, b)]

    return Case(
        f"sparse/product {a} {b}", ("SparseTensorDenseMatMul",), build,
        {**feeds(), "b:0": dense(rows, columns)},
    )  # fmt: skip


def case(name, op_types, build, **options):
    return Case(f"sparse/{name}", op_types, each(build), feeds(), **options)


OUT_OF_ORDER = [[3, 1], [0, 1], [1, 2], [1, 0]]


def reordered(tf):
    found = [sparse(tf, d, OUT_OF_ORDER) for d in ("float32", "float64")]
    found.append(sparse(tf, places=[[2], [0]], values=[1, 2], shape=[5]))
    return parts(*map(tf.sparse_reorder, found))


def added(tf):
    pairs = [(sparse(tf, d), sparse(tf, d, OUT_OF_ORDER)) for d in ("float32", "float64")]
    found = [tf.sparse_add(a, tf.sparse_reorder(b)) for a, b in pairs]
    return parts(*found, tf.sparse_add(pairs[0][0], fed(tf), thresh=4.5))


def joined(tf):
    narrow = sparse(tf, places=[[0, 0], [2, 1]], values=[7, 8], shape=[4, 2])
    double = sparse(tf, "float64")
    found = [tf.sparse_concat(1, [sparse(tf), narrow]), tf.sparse_concat(0, [double, double])]
    return parts(*found, tf.sparse_concat(-1, [sparse(tf), fed(tf)]))


def both(tf, operate):
    found = []
    for dtype in ("float32", "float64"):
        found += parts(operate(sparse(tf, dtype), np.array([[1.0, 2.0, 4.0]], dtype)))
    return [*found, *parts(operate(fed(tf), dense(4, 3) + 8))]


def placeholders(tf):
    return parts(
        tf.sparse_placeholder(tf.float32), tf.sparse_placeholder(tf.int64, [4, 3], name="named"),
        tf.sparse_placeholder(tf.string, [None, 3]),
    )  # fmt: skip


def filled(tf):
    found = [tf.sparse_fill_empty_rows(sparse(tf, d), 9.0) for d in ("float32", "float64")]
    found.append(tf.sparse_fill_empty_rows(fed(tf), -1.0))
    return [part for tensor, empty in found for part in (*parts(tensor)[:2], empty)]


CASES = [
    Case("sparse/to dense", ("SparseToDense",),
         lambda tf: [tf.sparse_to_dense(
             PLACES, [4, 3], VALUES, -1.0), tf.sparse_to_dense(
             np.array(PLACES, np.int64), [4, 3], ["a", "b", "c", "d"], "none")]),
    # TensorFlow's gradient fails for a vector of places.
    Case("sparse/vector to dense", ("SparseToDense",),
         lambda tf: tf.sparse_to_dense([1, 3], [5], 2.5), grad=False),
    case("tensor to dense", ("SparseToDense",), lambda tf, t: tf.sparse_tensor_to_dense(t)),
    case("tensor to dense and a default", ("SparseToDense",),
         lambda tf, t: tf.sparse_tensor_to_dense(t, -3.0)),
    Case("sparse/out of order", (),
         lambda tf: tf.sparse_tensor_to_dense(sparse(tf, places=OUT_OF_ORDER)), fails="run",
         match="indices[1] = [0, 1] is out of order"),
    Case("sparse/out of bounds", (),
         lambda tf: tf.sparse_tensor_to_dense(sparse(tf, shape=[3, 3])), fails="run",
         match="indices[3] = [3, 1] is out of bounds"),
    Case("sparse/repeated", (), lambda tf: tf.sparse_to_dense([1, 1], [5], [2, 3]), fails="run",
         match="indices[1] = [1] is repeated"),
    product(False, False, 3, 2), product(True, False, 4, 2), product(False, True, 2, 3),
    product(True, True, 2, 4),
    Case("sparse/product of other lengths", (),
         lambda tf: tf.sparse_tensor_dense_matmul(fed(tf), dense(4, 4)), feeds(), fails="run",
         match="inner dimension does not match"),
    Case("sparse/reordered", ("SparseReorder",), reordered),
    case("sum", ("SparseReduceSum",), lambda tf, t: tf.sparse_reduce_sum(t, 1)),
    case("sum of all", ("SparseReduceSum",), lambda tf, t: tf.sparse_reduce_sum(t)),
    case("sum kept", ("SparseReduceSum",),
         lambda tf, t: tf.sparse_reduce_sum(t, [-2], keepdims=True)),
    Case("sparse/largest", ("SparseReduceMax",),
         lambda tf: [tf.sparse_reduce_max(sparse(tf, "int32", values=[4, 2, 9, 1]), 1),
                     tf.sparse_reduce_max(sparse(tf, "float64", values=[4, 2, 9, 1]), 0)],
         grad=False),  # TensorFlow has none
    Case("sparse/added", ("SparseAdd",), added, feeds()),
    Case("sparse/added to dense", ("SparseTensorDenseAdd",),
         lambda tf: [tf.sparse_add(sparse(tf), dense(4, 3)), tf.sparse_add(
             tf.constant(dense(4, 3, "float64")), sparse(tf, "float64")),
             tf.sparse_add(fed(tf), dense(4, 3))], feeds()),
    Case("sparse/gradients of sums", ("SparseAddGrad",),
         lambda tf: [tf.raw_ops.SparseAddGrad(
             backprop_val_grad=np.array([1, 2, 3], d), a_indices=[[0], [1]], b_indices=[[1], [4]],
             sum_indices=[[0], [1], [4]]) for d in ("float32", "float64")] + [
             tf.raw_ops.SparseAddGrad(backprop_val_grad=[1.0, 2.0], a_indices=[[0, 2]],
                                      b_indices=[[1, 1]], sum_indices=[[0, 2], [1, 1]])]),
    # TensorFlow has no gradients of the two.
    Case("sparse/gradients of filled ones", ("SparseFillEmptyRowsGrad",),
         lambda tf: [x for d in ("float32", "int32") for n in (2, 3)
                     for x in tf.raw_ops.SparseFillEmptyRowsGrad(
                         reverse_index_map=np.arange(1, n, dtype=np.int64),
                         grad_values=np.arange(n).astype(d))], grad=False),
    Case("sparse/gradients of slices", ("SparseSliceGrad",),
         lambda tf: [tf.raw_ops.SparseSliceGrad(
             backprop_val_grad=np.arange(1, n, dtype=d), input_indices=[[0, 0], [1, 2], [2, 0]],
             input_start=[1, 0], output_indices=[[0, 2], [1, 0]][: n - 1])
             for d in ("float32", "float64") for n in (2, 3)], grad=False),
    Case("sparse/joined", ("SparseConcat",), joined, feeds()),
    Case("sparse/split", ("SparseSplit",),
         lambda tf: parts(*tf.sparse_split(sp_input=sparse(tf), num_split=2, axis=1),
                          *tf.sparse_split(sp_input=sparse(tf, "int64"), num_split=3, axis=0)),
         grad=False),  # TensorFlow has none
    case("reshaped", ("SparseReshape",), lambda tf, t: parts(tf.sparse_reshape(t, [2, -1]))),
    Case("sparse/sliced", ("SparseSlice",),
         lambda tf: parts(tf.sparse_slice(sparse(tf), [1, 0], [2, 2]),
                          tf.sparse_slice(sparse(tf, "float64"), [0, 1], [9, 9]),
                          tf.sparse_slice(fed(tf), [0, 0], [2, 3])), feeds()),
    Case("sparse/filled", ("SparseFillEmptyRows",), filled, feeds()),
    case("softmax", ("SparseSoftmax",), lambda tf, t: tf.sparse_softmax(t).values),
    Case("sparse/times dense", ("SparseDenseCwiseMul",),
         lambda tf: both(tf, lambda a, b: a * b), feeds()),
    Case("sparse/through dense", ("SparseDenseCwiseDiv",),
         lambda tf: both(tf, lambda a, b: a / b), feeds()),
    case("transposed", ("SparseReorder",), lambda tf, t: parts(tf.sparse_transpose(t))),
    Case("sparse/retained", (),
         lambda tf: parts(tf.sparse_retain(sparse(tf), [True, False, False, True]))),
    Case("sparse/placeholders", ("Placeholder",), placeholders,
         {"Placeholder:0": [4, 3], "Placeholder_1:0": [1.0], "Placeholder_2:0": [[0, 0]],
          "named/values:0": [3], "named/indices:0": [[1, 1]], "Placeholder_3:0": [b"a"],
          "Placeholder_4:0": [[0, 1]]}),
    Case("sparse/indicator", ("SparseToDense",),
         lambda tf: tf.sparse_to_indicator(sparse(tf, "int64", values=[4, 2, 0, 1]), 5)),
    Case("partitions/parted", ("DynamicPartition",),
         lambda tf: [tf.dynamic_partition(dense(4, 3), [1, 0, 1, 2], 3), tf.dynamic_partition(
             tf.constant([1.5, 2.5], tf.float64), [0, 0], 2)]),
    Case("partitions/stitched", ("DynamicStitch",),
         lambda tf: [tf.dynamic_stitch([[2, 0], [1]], [dense(2, 3), dense(1, 3)]),
                     tf.dynamic_stitch([0, [2, 0]], [tf.constant(4.0, tf.float64), [1.0, 2.0]])]),
    Case("partitions/stitched side by side", ("ParallelDynamicStitch",),
         lambda tf: [tf.raw_ops.ParallelDynamicStitch(indices=i, data=[tf.constant(x) for x in d])
                     for i, d in (([[1], [0]], [dense(1, 2), dense(1, 2) + 1]),
                                  ([[0, 1], [2]], [dense(1, 2)[0], np.float32([7])]),
                                  ([[0]], [np.array([1.5])]))]),
    Case("partitions/out of range", (), lambda tf: tf.dynamic_partition([1], [3], 2), fails="run",
         match="partitions[0] = 3 is not in [0, 2)"),
]  # fmt: skip
