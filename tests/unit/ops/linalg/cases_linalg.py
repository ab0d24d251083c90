"""Linear algebra. Signs of vectors are free, so that what does not hang on them is compared."""

import numpy as np
from op_cases import Case

REAL, ALL = ("float32", "float64"), ("float32", "float64", "complex64", "complex128")


def matrix(*shape, dtype="float64"):
    """Far from singular, and no two eigenvalues alike."""
    count = int(np.prod(shape))
    values = np.sin(np.arange(count) * 1.7 + 0.3).reshape(shape)
    if dtype.startswith("complex"):
        values = values + 1j * np.cos(np.arange(count) * 2.3).reshape(shape)
    least = min(shape[-2:])
    values[..., range(least), range(least)] += np.arange(1, least + 1) * 2.0
    return values.astype(dtype)


def positive(*outer, size=3, dtype="float64"):
    half = matrix(*outer, size, size, dtype=dtype)
    found = half @ np.conj(np.swapaxes(half, -1, -2)) + np.eye(size)
    return found.astype(dtype)


def tol(dtype):
    return 3e-5 if dtype in ("float32", "complex64") else 1e-9


def case(name, op_type, build, dtype="float64", **options):
    return Case(f"linalg/{name} {dtype}", (op_type,) if op_type else (), build, tol=tol(dtype),
                **options)  # fmt: skip


def of(make, *shapes):
    """What `make` gives of several batches, and of one that is fed."""

    def build(tf, dtype):
        return [make(tf, tf.constant(matrix(*shape, dtype=dtype))) for shape in shapes]

    return build


def each(name, op_type, build, dtypes=ALL, **options):
    # Our gradients of complex matrices are made of other nodes.
    return [case(name, op_type, lambda tf, d=d: build(tf, d), d, **options) for d in dtypes]


def sign_free(tf, *tensors):
    return [tf.abs(t) for t in tensors]


def fed(tf, dtype="float64", rank=2):
    return tf.placeholder(dtype, [None] * rank, name="x")


def solved(name, call, *, lower=None):
    def build(tf, dtype):
        found = []
        for outer in ((), (2,)):
            a, b = matrix(*outer, 3, 3, dtype=dtype), matrix(*outer, 3, 2, dtype=dtype)
            for adjoint in (False, True):
                more = {} if lower is None else {"lower": lower}
                found += [call(tf)(tf.constant(a), tf.constant(b), adjoint=adjoint, **more)]
        return found

    return build


def fails(name, build, match, when="run"):
    return Case(f"linalg/{name}", (), build, fails=when, match=match)


SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
CASES = [
    *each("cholesky", "Cholesky", lambda tf, d: [
        tf.cholesky(tf.constant(positive(dtype=d))),
        tf.linalg.cholesky(tf.constant(positive(2, size=2, dtype=d)), name="named")],
        graph=True),
    *each("inverse", "MatrixInverse", of(
        lambda tf, x: [tf.matrix_inverse(x), tf.linalg.inv(x, adjoint=True)], (3, 3), (2, 2, 2))),
    *each("determinant", "MatrixDeterminant", of(
        lambda tf, x: tf.matrix_determinant(x), (3, 3), (2, 2, 2))),
    *each("log determinant", "LogMatrixDeterminant", of(
        lambda tf, x: list(tf.linalg.slogdet(x)), (3, 3), (2, 2, 2)), REAL),
    *each("solve", "MatrixSolve", solved("solve", lambda tf: tf.matrix_solve)),
    *each("lower solve", "MatrixTriangularSolve", solved(
        "lower", lambda tf: tf.matrix_triangular_solve)),
    *each("upper solve", "MatrixTriangularSolve", solved(
        "upper", lambda tf: tf.linalg.triangular_solve, lower=False)),
    *each("repeated solve", "MatrixTriangularSolve", lambda tf, d: [
        tf.linalg.triangular_solve(tf.constant(matrix(3, 3, dtype=d)),
                                   tf.constant(matrix(2, 3, 1, dtype=d))),
        tf.linalg.triangular_solve(tf.constant(matrix(2, 3, 3, dtype=d)),
                                   tf.constant(matrix(3, 1, dtype=d)))], REAL),
    *each("qr", "Qr", of(lambda tf, x: sign_free(tf, *tf.qr(x)), (3, 3), (2, 4, 3)), REAL),
    *each("wide qr", "Qr", of(lambda tf, x: sign_free(tf, *tf.linalg.qr(x)), (2, 3)), REAL),
    *each("full qr", "Qr", of(lambda tf, x: sign_free(tf, *tf.qr(x, full_matrices=True)),
                              (4, 2)), grad=False),  # TensorFlow has none
    *each("eigenvectors", "SelfAdjointEigV2", lambda tf, d: [
        part for outer in ((), (2,)) for part in sign_free(
            tf, *tf.self_adjoint_eig(tf.constant(positive(*outer, dtype=d))))], REAL),
    *each("eigenvalues", "SelfAdjointEigV2", lambda tf, d: [
        tf.self_adjoint_eigvals(tf.constant(positive(dtype=d))),
        tf.linalg.eigvalsh(tf.constant(positive(2, dtype=d)), name="named")], REAL),
    *each("singular vectors", "Svd", of(
        lambda tf, x: sign_free(tf, *tf.svd(x)), (3, 3), (2, 2, 3), (4, 2)), REAL),
    *each("all singular vectors", "Svd", of(
        lambda tf, x: sign_free(tf, *tf.svd(x, full_matrices=True)), (2, 3), (3, 2)), REAL),
    *each("singular values", "Svd", of(
        lambda tf, x: tf.linalg.svd(x, compute_uv=False), (3, 3), (2, 3, 2)), REAL),
    *each("singular values of complex ones", "Svd", of(
        lambda tf, x: tf.svd(x, compute_uv=False), (3, 3)), ("complex64", "complex128")),
    case("fed", "Cholesky", lambda tf: [
        tf.cholesky(fed(tf)), tf.matrix_inverse(fed(tf)), tf.matrix_determinant(fed(tf)),
        tf.matrix_solve(fed(tf), tf.ones([3, 1], tf.float64)),
        tf.matrix_triangular_solve(fed(tf), tf.ones([3, 1], tf.float64)),
        *sign_free(tf, *tf.self_adjoint_eig(fed(tf)))],
        feeds={f"x{n}:0": positive() for n in ("", "_1", "_2", "_3", "_4", "_5")}),
    case("fed factors", "Qr", lambda tf: [
        *sign_free(tf, *tf.qr(fed(tf))), *sign_free(tf, *tf.svd(fed(tf)))], grad=False,  # no sides
        feeds={"x:0": matrix(3, 2), "x_1:0": matrix(3, 2)}),
    case("cholesky solve", "MatrixTriangularSolve", lambda tf: tf.cholesky_solve(
        tf.cholesky(tf.constant(positive())), tf.constant(matrix(3, 2)))),
    case("least squares", "Cholesky", lambda tf: [
        tf.matrix_solve_ls(tf.constant(matrix(4, 2)), tf.constant(matrix(4, 1))),
        tf.linalg.lstsq(tf.constant(matrix(2, 4)), tf.constant(matrix(2, 3)))]),
    case("regularized least squares", "Cholesky", lambda tf: tf.linalg.lstsq(
        tf.constant(matrix(2, 4, 2)), tf.constant(matrix(2, 4, 1)), l2_regularizer=0.5),
        graph=False, grad=False),  # the regularizer is added by other nodes
    case("log of determinants", "Cholesky", lambda tf: tf.linalg.logdet(
        tf.constant(positive(2)))),
    case("trace", "Sum", lambda tf: [tf.trace(tf.constant(matrix(3, 3))), tf.linalg.trace(
        matrix(2, 2, 3), name="named")]),
    case("transposed", "Transpose", lambda tf: [
        tf.matrix_transpose(tf.constant(matrix(2, 3))), tf.linalg.transpose(matrix(2, 2, 3)),
        tf.linalg.adjoint(tf.constant(matrix(2, 3)))], graph=False),
    case("adjoint", "", lambda tf: tf.linalg.adjoint(
        tf.constant(matrix(2, 3, dtype="complex64"))), "complex64", graph=False),
    case("norms", "Sqrt", lambda tf: [
        tf.norm(tf.constant(matrix(2, 3))), tf.norm(matrix(2, 3), axis=1),
        tf.norm(matrix(2, 3), 1, axis=0, keepdims=True), tf.norm(matrix(2, 3), np.inf),
        tf.linalg.norm(matrix(2, 3), 3, axis=-1, name="named")]),
    case("norms of matrices", "Abs", lambda tf: [
        tf.norm(matrix(2, 3, 3), ord, axis=(1, 2), keep_dims=keep)
        for ord, keep in (("euclidean", True), ("fro", False), (1, False), (np.inf, True))]),
    fails("no inverse", lambda tf: tf.matrix_inverse(SINGULAR), "not invertible"),
    fails("no solution", lambda tf: tf.matrix_solve(SINGULAR, np.ones([2, 1])), "not invertible"),
    fails("not square", lambda tf: tf.matrix_inverse(matrix(2, 3)), "2 and 3", "build"),
    fails("a vector", lambda tf: tf.cholesky([1.0]), "rank", "build"),
    fails("sides that differ", lambda tf: tf.matrix_solve(matrix(2, 2), matrix(3, 1)), "2 and 3",
          "build"),
    fails("no such norm", lambda tf: tf.norm([1.0], "nuclear"), "supported vector norm", "build"),
    fails("no such axis", lambda tf: tf.norm([[1.0]], axis=(0, 0)), "2 unique integers", "build"),
]  # fmt: skip
