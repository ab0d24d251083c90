"""Rows of tables by number, one each or combined.

TensorFlow's later releases look rows up without collecting repeated ids first, so the graphs are
not compared where that differs.
"""

import numpy as np
from op_cases import Case

TABLE = (np.arange(14).reshape(7, 2) * 0.5 - 2).astype(np.float32)
PLACES = [[0, 0], [0, 2], [1, 1], [3, 0], [3, 1]]
IDS, WEIGHTS = [3, 0, 3, 6, 1], [1.0, 2.0, 0.5, 3.0, 1.5]


def sparse(tf, values, dtype):
    return tf.SparseTensor(PLACES, tf.constant(values, dtype), [5, 3])


def combined(combiner, weighted, **options):
    def build(tf):
        found = []
        for kind, of_ids in (("float32", "int64"), ("float64", "int32")):
            weights = sparse(tf, WEIGHTS, kind) if weighted else None
            found.append(tf.nn.embedding_lookup_sparse(
                tf.constant(TABLE.astype(kind)), sparse(tf, IDS, of_ids), weights,
                combiner=combiner, **options))  # fmt: skip
        return found

    return build


def parts(tf, count=3):
    return [tf.constant(TABLE[i::count]) for i in range(count)]


def in_order(tf):
    return [tf.constant(TABLE[:3]), tf.constant(TABLE[3:5]), tf.constant(TABLE[5:])]


def safe(default, weighted, combiner="mean"):
    def build(tf):
        ids = [3, -1, 3, 6, 1]
        weights = sparse(tf, [1.0, 2.0, 0.5, -3.0, 1.5], "float32") if weighted else None
        return tf.nn.safe_embedding_lookup_sparse(
            tf.constant(TABLE), sparse(tf, ids, "int64"), weights, combiner, default
        )

    return build


def case(name, build, op_types=(), **options):
    return Case(f"embeddings/{name}", op_types, build, graph=False, tol=2e-6, **options)


CASES = [
    case("in parts", lambda tf: [
        tf.nn.embedding_lookup(parts(tf), [[0, 6], [4, 3]]),
        tf.nn.embedding_lookup(parts(tf), tf.placeholder(tf.int64, [None], "x"))],
        ("DynamicPartition", "ParallelDynamicStitch"), feeds={"x:0": [5, 5, 0]}),
    case("in parts one after the other", lambda tf: tf.nn.embedding_lookup(
        in_order(tf), [0, 2, 3, 4, 6, 5], partition_strategy="div"), ("DynamicPartition",)),
    case("no longer than", lambda tf: [
        tf.nn.embedding_lookup(tf.constant(TABLE), [[0, 6]], max_norm=1.0),
        tf.nn.embedding_lookup(parts(tf), [0, 6], max_norm=1.0)], ("GatherV2",)),
    *[case(f"{name}{' weighted' if weighted else ''}", combined(name, weighted),
           ("SegmentSum",) if weighted else (f"SparseSegment{op_type}",))
      for name, op_type in (("sum", "Sum"), ("mean", "Mean"), ("sqrtn", "SqrtN"))
      for weighted in (False, True)],
    case("mean of short ones", combined("mean", True, max_norm=1.5)),
    case("sum of parts", lambda tf: tf.nn.embedding_lookup_sparse(
        parts(tf), sparse(tf, IDS, "int64"), None, combiner="sum")),
    case("safe", safe(None, False)),
    case("safe and weighted", safe(None, True)),
    case("safe sum with a default", safe(2, True, "sum")),
    Case("embeddings/no such combiner", (), combined("max", False), fails="build",
         match="combiner must be one of"),
    Case("embeddings/no such strategy", (), lambda tf: tf.nn.embedding_lookup(
        parts(tf), [1], partition_strategy="rest"), fails="build", match="Unrecognized partition"),
    Case("embeddings/dense ids", (), lambda tf: tf.nn.embedding_lookup_sparse(TABLE, [1], None),
         fails="build", match="sp_ids must be SparseTensor"),
]  # fmt: skip
