"""Activations, softmax and losses, bias, moments, the largest elements."""

from __future__ import annotations

import numpy as np
from op_cases import Case

NAN, INF = float("nan"), float("inf")
CASES: list[Case] = []


def case(id, op_types, build, **more):
    names = (op_types,) if isinstance(op_types, str) else op_types
    CASES.append(Case(id, names, build, **more))


X = [[-3.0, -0.5, 0.0], [0.75, 2.0, 8.0]]
EDGE = [NAN, INF, -INF, 90.0, -90.0]
for op, name in (
    ("Relu", "relu"),
    ("Relu6", "relu6"),
    ("Elu", "elu"),
    ("Selu", "selu"),
    ("LeakyRelu", "leaky_relu"),
    ("Softplus", "softplus"),
    ("Softsign", "softsign"),
    ("Sigmoid", "sigmoid"),
):
    for dtype in ("float32", "float64", "float16"):
        case(f"{op}-{dtype}", op, lambda tf, n=name, d=dtype: getattr(tf.nn, n)(
            tf.constant(X, d)), tol=2e-6 if dtype != "float64" else 1e-7)  # fmt: skip
    case(f"{op}-edges", op, lambda tf, n=name: getattr(tf.nn, n)(tf.constant(EDGE)), tol=2e-6)
    case(f"{op}-scalar", op, lambda tf, n=name: getattr(tf.nn, n)(tf.constant(-1.5)), tol=2e-6)
    case(f"{op}-none", op, lambda tf, n=name: getattr(tf.nn, n)(tf.zeros([0, 2]), name="act"))
    case(f"{op}-fed", op, lambda tf, n=name: getattr(tf.nn, n)(
        tf.placeholder("float32", [None, 3], name="x")), feeds={"x:0": X}, tol=2e-6)  # fmt: skip
for op, name in (("Relu", "relu"), ("Relu6", "relu6")):
    for dtype in ("int32", "int64", "uint8"):
        case(f"{op}-{dtype}", op, lambda tf, n=name, d=dtype: getattr(tf.nn, n)(
            tf.constant(np.array([-3, 0, 9]).astype(d))))  # fmt: skip
for alpha in (0.1, 2.0, -1.0):
    case(f"LeakyRelu-alpha-{alpha}", "LeakyRelu", lambda tf, a=alpha: tf.nn.leaky_relu(
        tf.constant(X), a, name="leaky"))  # fmt: skip
case("LeakyRelu-ints", ("LeakyRelu", "Cast"), lambda tf: tf.nn.leaky_relu(tf.constant([-2, 3])))
case("tanh", "Tanh", lambda tf: tf.nn.tanh(tf.constant(X)), tol=2e-6)
case("Elu-of-ints", "Elu", lambda tf: tf.nn.elu(tf.constant([1])), fails="build", match="int32")

for op, name in (("Softmax", "softmax"), ("LogSoftmax", "log_softmax")):
    for dtype in ("float32", "float64", "float16"):
        case(f"{op}-{dtype}", op, lambda tf, n=name, d=dtype: getattr(tf.nn, n)(
            tf.constant([[1.0, 2.0, 3.0], [500.0, 0.0, -500.0]], d)), tol=2e-6)  # fmt: skip
    case(f"{op}-vector", op, lambda tf, n=name: getattr(tf.nn, n)([1.0, 2.0], name="s"), tol=2e-6)
    case(f"{op}-rank3", op, lambda tf, n=name: getattr(tf.nn, n)(
        tf.constant(np.arange(12.0).reshape(2, 3, 2))), tol=2e-6)  # fmt: skip
    case(f"{op}-last-by-number", op, lambda tf, n=name: getattr(tf.nn, n)(tf.constant(X), axis=1),
         tol=2e-6)  # fmt: skip
    for axis in (0, 1, -3):
        case(f"{op}-axis{axis}", (op, "Transpose"), lambda tf, n=name, a=axis: getattr(tf.nn, n)(
            tf.constant(np.arange(12.0).reshape(2, 3, 2)), axis=a, name="s"), tol=2e-6,
            graph=axis >= 0)  # fmt: skip
    case(f"{op}-no-classes", op, lambda tf, n=name: getattr(tf.nn, n)(tf.zeros([2, 0])))
    case(f"{op}-no-rows", op, lambda tf, n=name: getattr(tf.nn, n)(tf.zeros([0, 2])))
    case(f"{op}-unknown", op, lambda tf, n=name: getattr(tf.nn, n)(
        tf.placeholder("float32", name="x")), feeds={"x:0": X}, tol=2e-6)  # fmt: skip
    case(f"{op}-of-scalar", op, lambda tf, n=name: getattr(tf.nn, n)(1.0),
         fails="build", match="at least rank 1")  # fmt: skip

L = [[0.0, 1.0, 0.0], [0.25, 0.25, 0.5]]
DENSE = "SoftmaxCrossEntropyWithLogits"
for dtype in ("float32", "float64"):
    case(f"{DENSE}-{dtype}", DENSE, lambda tf, d=dtype: tf.raw_ops.SoftmaxCrossEntropyWithLogits(
        features=tf.constant(X, d), labels=tf.constant(L, d)), tol=2e-6)  # fmt: skip
case(f"{DENSE}-broadcast", DENSE, lambda tf: tf.raw_ops.SoftmaxCrossEntropyWithLogits(
    features=tf.constant(X), labels=tf.constant(L[:1])), tol=2e-6,
    grad=False)  # TensorFlow's gradient has the wrong shape  # fmt: skip
case(f"{DENSE}-no-rows", DENSE, lambda tf: tf.raw_ops.SoftmaxCrossEntropyWithLogits(
    features=tf.zeros([0, 3]), labels=tf.zeros([0, 3])))  # fmt: skip
case("softmax_cross_entropy_with_logits", (DENSE, "StopGradient"),
     lambda tf: tf.nn.softmax_cross_entropy_with_logits(
         labels=tf.constant(L), logits=tf.constant(X)), tol=2e-6)  # fmt: skip
case("softmax_cross_entropy_with_logits-named", DENSE,
     lambda tf: tf.nn.softmax_cross_entropy_with_logits(labels=L, logits=X, name="loss"),
     tol=2e-6)  # fmt: skip
case("softmax_cross_entropy_with_logits_v2", DENSE,
     lambda tf: tf.nn.softmax_cross_entropy_with_logits_v2(
         labels=tf.constant(L), logits=tf.constant(X)), tol=2e-6)  # fmt: skip
case("softmax_cross_entropy_with_logits_v2-axis", (DENSE, "Transpose"),
     lambda tf: tf.nn.softmax_cross_entropy_with_logits_v2(
         labels=tf.constant(L), logits=tf.constant(X), axis=0), tol=2e-6)  # fmt: skip
case("softmax_cross_entropy_with_logits_v2-rank3", DENSE,
     lambda tf: tf.nn.softmax_cross_entropy_with_logits_v2(
         labels=tf.constant([L]), logits=tf.constant([X])), tol=2e-6)  # fmt: skip
case("softmax_cross_entropy_with_logits_v2-half", (DENSE, "Cast"),
     lambda tf: tf.nn.softmax_cross_entropy_with_logits_v2(
         labels=tf.constant(L, "float16"), logits=tf.constant(X, "float16")))  # fmt: skip
case("softmax_cross_entropy_with_logits_v2-unknown", DENSE,
     lambda tf: tf.nn.softmax_cross_entropy_with_logits_v2(
         labels=tf.placeholder("float32", name="l"), logits=tf.placeholder("float32", name="x")),
     feeds={"l:0": L, "x:0": X}, tol=2e-6)  # fmt: skip
case("softmax_cross_entropy_with_logits_v2-batch", DENSE,
     lambda tf: tf.nn.softmax_cross_entropy_with_logits_v2(
         labels=tf.placeholder("float32", [None, 3], name="l"),
         logits=tf.placeholder("float32", [None, 3], name="x")),
     feeds={"l:0": L, "x:0": X}, tol=2e-6)  # fmt: skip

SPARSE = "SparseSoftmaxCrossEntropyWithLogits"
for dtype in ("int32", "int64"):
    case(f"{SPARSE}-{dtype}", SPARSE,
         lambda tf, d=dtype: tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
             features=tf.constant(X, "float64"), labels=tf.constant([2, 0], d)))  # fmt: skip
for tag, labels, logits in (
    ("rank2", [2, 0], X), ("rank3", [[2, 0]], [X]), ("rank1", 1, X[0]),
):  # fmt: skip
    case(f"sparse_softmax_cross_entropy_with_logits-{tag}", SPARSE,
         lambda tf, a=labels, b=logits: tf.nn.sparse_softmax_cross_entropy_with_logits(
             labels=tf.constant(a), logits=tf.constant(b)), tol=2e-6)  # fmt: skip
case("sparse_softmax_cross_entropy_with_logits-named", SPARSE,
     lambda tf: tf.nn.sparse_softmax_cross_entropy_with_logits(
         labels=[2, 0], logits=X, name="loss"), tol=2e-6)  # fmt: skip
case("sparse_softmax_cross_entropy_with_logits-batch", SPARSE,
     lambda tf: tf.nn.sparse_softmax_cross_entropy_with_logits(
         labels=tf.placeholder("int64", [None], name="l"),
         logits=tf.placeholder("float32", [None, 3], name="x")),
     feeds={"l:0": [2, 0], "x:0": X}, tol=2e-6)  # fmt: skip
case("sparse_softmax_cross_entropy_with_logits-unknown", (SPARSE, "Assert"),
     lambda tf: tf.nn.sparse_softmax_cross_entropy_with_logits(
         labels=tf.placeholder("int32", name="l"), logits=tf.placeholder("float32", name="x")),
     feeds={"l:0": [[2, 0]], "x:0": [X]}, tol=2e-6)  # fmt: skip
case("sparse_softmax_cross_entropy_with_logits-outside", SPARSE,
     lambda tf: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 3], logits=X),
     fails="run", match="label value of 3 which is outside the valid range of [0, 3)")  # fmt: skip
case("sparse_softmax_cross_entropy_with_logits-ranks", SPARSE,
     lambda tf: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[[0, 1]], logits=X),
     fails="build", match="labels.shape")  # fmt: skip
case("softmax_cross_entropy_with_logits-nothing", DENSE,
     lambda tf: tf.nn.softmax_cross_entropy_with_logits(logits=X),
     fails="build", match="labels")  # fmt: skip

case("sigmoid_cross_entropy_with_logits", ("GreaterEqual", "Select", "Log1p"),
     lambda tf: tf.nn.sigmoid_cross_entropy_with_logits(
         labels=tf.constant(L), logits=tf.constant(X)), tol=2e-6)  # fmt: skip
case("sigmoid_cross_entropy_with_logits-named", "Log1p",
     lambda tf: tf.nn.sigmoid_cross_entropy_with_logits(
         labels=tf.constant(L), logits=tf.constant(X), name="loss"), tol=2e-6)  # fmt: skip
case("sigmoid_cross_entropy_with_logits-shapes", "Log1p",
     lambda tf: tf.nn.sigmoid_cross_entropy_with_logits(labels=L, logits=X[0]),
     fails="build", match="same shape")  # fmt: skip

case("BiasAdd", "BiasAdd", lambda tf: tf.nn.bias_add(tf.constant(X), [1.0, 2.0, 3.0], name="b"))
case(
    "BiasAdd-int32",
    "BiasAdd",
    lambda tf: tf.nn.bias_add(tf.constant([[1, 2]]), tf.constant([3, 4])),
)
case("BiasAdd-rank4", "BiasAdd", lambda tf: tf.nn.bias_add(
    tf.zeros([2, 3, 4, 5]), tf.constant([0.0, 1.0, 2.0, 3.0, 4.0])))  # fmt: skip
case("BiasAdd-channels-first", "BiasAdd", lambda tf: tf.nn.bias_add(
    tf.zeros([2, 3, 4, 5]), tf.constant([0.0, 1.0, 2.0]), data_format="NCHW"))  # fmt: skip
case("BiasAdd-fed", "BiasAdd", lambda tf: tf.nn.bias_add(
    tf.placeholder("float32", [None, 3], name="x"), [1.0, 2.0, 3.0]), feeds={"x:0": X})  # fmt: skip
case("BiasAdd-vector", "BiasAdd", lambda tf: tf.nn.bias_add(tf.zeros([3]), [1.0]),
     fails="build", match="at least rank 2")  # fmt: skip
case("BiasAdd-length", "BiasAdd", lambda tf: tf.nn.bias_add(tf.constant(X), [1.0]),
     fails="build", match="3 and 1")  # fmt: skip
case("BiasAdd-format", "BiasAdd", lambda tf: tf.nn.bias_add(tf.constant(X), [1.0], "CHWN"),
     fails="build", match="data_format")  # fmt: skip

W, B = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [0.5, -100.0]
case("xw_plus_b", ("MatMul", "BiasAdd"), lambda tf: tf.nn.xw_plus_b(X, W, B))
case("relu_layer", ("MatMul", "BiasAdd", "Relu"), lambda tf: tf.nn.relu_layer(X, W, B, name="l"))
case("moments", ("Mean", "SquaredDifference", "Squeeze"),
     lambda tf: tf.nn.moments(tf.constant(X), [0]), tol=2e-6)  # fmt: skip
case("moments-kept", "Mean", lambda tf: tf.nn.moments(tf.constant(X), [0, 1], keep_dims=True,
     name="m"), tol=2e-6)  # fmt: skip
case("moments-half", ("Mean", "Cast"), lambda tf: tf.nn.moments(tf.constant(X, "float16"), [1]))
for tag, offset, scale in (("plain", None, None), ("all", [1.0, 2.0, 3.0], [0.5, 1.5, -1.0])):
    case(f"batch_normalization-{tag}", ("Rsqrt", "Mul"),
         lambda tf, o=offset, s=scale: tf.nn.batch_normalization(
             tf.constant(X), tf.constant([0.5, 1.0, 2.0]), tf.constant([1.0, 2.0, 9.0]), o, s,
             1e-3), tol=2e-6, graph=False)  # fmt: skip
case("embedding_lookup", "GatherV2", lambda tf: tf.nn.embedding_lookup(
    tf.constant(X), [[1, 0], [1, 1]]), graph=False)  # fmt: skip
case("l2_normalize", ("Rsqrt", "Sum"), lambda tf: tf.nn.l2_normalize(tf.constant(X), 1), tol=2e-6)
case("l2_normalize-all", "Rsqrt", lambda tf: tf.nn.l2_normalize(
    tf.constant(X), dim=[0, 1], epsilon=1e-3, name="n"), tol=2e-6)  # fmt: skip

case("log_sigmoid", "Softplus", lambda tf: tf.log_sigmoid(tf.constant(X)), tol=2e-6)
for tag, more in (
    ("keep_prob", {"keep_prob": 0.5}), ("rate", {"rate": 0.25, "name": "d"}),
    ("rows", {"keep_prob": 0.5, "noise_shape": [None, 1]}),
):  # fmt: skip
    case(f"dropout-{tag}", ("RandomUniform", "SelectV2"), lambda tf, m=more: tf.nn.dropout(
        tf.constant(X), seed=1, **m), values=False)  # fmt: skip
case("dropout-fed-rate", ("RandomUniform", "RealDiv"), lambda tf: tf.nn.dropout(
    tf.constant(X), tf.placeholder("float32", [], name="p"), seed=1),
    feeds={"p:0": 0.5}, values=False)  # fmt: skip
case("dropout-none", "Const", lambda tf: tf.nn.dropout(tf.constant(X), keep_prob=1.0))
case("dropout-rate-outside", "Mul", lambda tf: tf.nn.dropout(tf.constant(X), 1.5), fails="build",
     match="range [0, 1)")  # fmt: skip
case("dropout-ints", "Mul", lambda tf: tf.nn.dropout(tf.constant([1]), 0.5), fails="build",
     match="floating point")  # fmt: skip

ROWS = [[1.0, 3.0, 3.0, 2.0], [4.0, -INF, INF, 0.0]]
for dtype in ("float32", "float64"):
    case(f"TopKV2-{dtype}", "TopKV2", lambda tf, d=dtype: tf.nn.top_k(tf.constant(ROWS, d), 3))
for dtype in ("int32", "uint8"):
    case(f"TopKV2-{dtype}", "TopKV2", lambda tf, d=dtype: tf.nn.top_k(
        tf.constant([5, 0, 200, 5], d), 4))  # fmt: skip
case("TopKV2-default", "TopKV2", lambda tf: tf.nn.top_k(tf.constant(ROWS)))
case("TopKV2-zero", "TopKV2", lambda tf: tf.nn.top_k(tf.constant(ROWS), 0, name="t"))
case("TopKV2-int64-indices", "TopKV2", lambda tf: tf.nn.top_k(
    tf.constant(ROWS), 2, index_type=tf.int64),
    grad=False)  # TensorFlow's gradient mixes index types  # fmt: skip
case("TopKV2-fed-k", "TopKV2", lambda tf: tf.nn.top_k(
    tf.constant(ROWS), tf.placeholder("int32", [], name="k")), feeds={"k:0": 2})  # fmt: skip
case("TopKV2-too-many", "TopKV2", lambda tf: tf.nn.top_k(tf.constant(ROWS), 5),
     fails="build", match="last dimension >= k = 5 but is 4")  # fmt: skip
case("TopKV2-too-many-fed", "TopKV2", lambda tf: tf.nn.top_k(
    tf.constant(ROWS), tf.placeholder("int32", [], name="k")), feeds={"k:0": 5},
    fails="run", match="5")  # fmt: skip

GUESSES = [[1.0, NAN, 2.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 2.0], [3.0, 2.0, 1.0]]
case("InTopKV2", "InTopKV2", lambda tf: tf.nn.in_top_k(
    tf.constant(GUESSES), tf.constant([0, 5, 1, 1, 2]), 2))  # fmt: skip
case("InTopKV2-int64", "InTopKV2", lambda tf: tf.nn.in_top_k(
    tf.constant(GUESSES), tf.constant([0, -1, 2, 2, 2], "int64"), 1))  # fmt: skip
case("InTopKV2-no-rows", "InTopKV2", lambda tf: tf.nn.in_top_k(
    tf.zeros([0, 3]), tf.zeros([0], "int32"), 1))  # fmt: skip
