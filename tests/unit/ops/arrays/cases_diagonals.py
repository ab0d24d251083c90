"""Tensors from diagonals, their diagonals, and bands of matrices."""

from __future__ import annotations

import numpy as np
from op_cases import Case

CASES: list[Case] = []


def case(id, op_type, build, **more):
    CASES.append(Case(id, (op_type,), build, **more))


def values(*shape, dtype="float32"):
    return (np.arange(int(np.prod(shape))).reshape(shape) % 7 - 2).astype(dtype)


for dtype in ("float32", "float64", "int32", "complex64"):
    case(f"Diag-{dtype}", "Diag", lambda tf, d=dtype: tf.diag(tf.constant(values(3, dtype=d))))
    case(f"DiagPart-{dtype}", "DiagPart", lambda tf, d=dtype: tf.diag_part(
        tf.constant(values(3, 3, dtype=d))))  # fmt: skip
    case(f"MatrixBandPart-of-{dtype}", "MatrixBandPart", lambda tf, d=dtype: tf.matrix_band_part(
        tf.constant(values(4, 5, dtype=d)), 1, 2))  # fmt: skip
case("Diag-matrix", "Diag", lambda tf: tf.diag(tf.constant(values(2, 3)), name="d"))
case("Diag-plain", "Diag", lambda tf: tf.diag([1.0, 2.0]))
case("Diag-none", "Diag", lambda tf: tf.diag(tf.constant(values(0))))
case("DiagPart-four-axes", "DiagPart", lambda tf: tf.diag_part(tf.constant(values(2, 3, 2, 3))))
case("DiagPart-fed", "DiagPart", lambda tf: tf.diag_part(
    tf.placeholder("float32", [None, 3], name="x")), feeds={"x:0": values(3, 3)})  # fmt: skip
for below, above in ((-1, 0), (0, -1), (0, 0), (-1, -1), (2, 0)):
    case(f"MatrixBandPart-{below}-{above}", "MatrixBandPart",
         lambda tf, b=below, a=above: tf.matrix_band_part(
             tf.constant(values(2, 3, 3)), b, a))  # fmt: skip
case("MatrixBandPart-int32", "MatrixBandPart", lambda tf: tf.matrix_band_part(
    tf.constant(values(3, 3)), tf.constant(1), tf.constant(0), name="band"))  # fmt: skip

ALIGNED = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")
BANDS = [
    ((0, 1), (2, 3)),
    ((-1, 0), (2, 3)),
    ((-1, 1), (3, 3)),
    ((1, 2), (2, 3)),
    ((-2, -1), (2, 3)),
]
for k, shape in BANDS:
    for align in ALIGNED:
        name = f"{k}-{align}"
        case(
            f"MatrixDiagV3-{name}",
            "MatrixDiagV3",
            lambda tf, k=k, s=shape, a=align: tf.matrix_diag(
                tf.constant(values(2, *s)), k=k, padding_value=7.0, align=a
            ),
        )
        case(
            f"MatrixDiagPartV3-{name}",
            "MatrixDiagPartV3",
            lambda tf, k=k, a=align: tf.matrix_diag_part(
                tf.constant(values(2, 3, 4)), k=k, padding_value=7.0, align=a
            ),
        )
        case(
            f"MatrixSetDiagV3-{name}",
            "MatrixSetDiagV3",
            lambda tf, k=k, a=align: tf.matrix_set_diag(
                tf.constant(values(2, 3, 4)),
                tf.matrix_diag_part(tf.constant(values(2, 3, 4) + 20), k=k, align=a),
                k=k,
                align=a,
            ),
        )
case(
    "MatrixDiagV3-oblong",
    "MatrixDiagV3",
    lambda tf: tf.matrix_diag(tf.constant(values(2, 3)), k=(0, 1), num_rows=3, num_cols=7),
)
case(
    "MatrixDiagV3-wide",
    "MatrixDiagV3",
    lambda tf: tf.matrix_diag(tf.constant(values(2, 3, dtype="int32")), k=(-1, 0), num_rows=4),
)
case(
    "MatrixDiagPartV3-fed-band",
    "MatrixDiagPartV3",
    lambda tf: tf.matrix_diag_part(
        tf.placeholder("float32", [None, 4], name="x"), k=tf.placeholder("int32", [2], name="k")
    ),
    feeds={"x:0": values(3, 4), "k:0": [-1, 1]},
)
case(
    "MatrixDiagPartV3-fed-matrix",
    "MatrixDiagPartV3",
    lambda tf: tf.matrix_diag_part(tf.placeholder("float32", [None, 4], name="x"), k=(-1, 2)),
    feeds={"x:0": values(3, 4)},
    grad=False,  # TensorFlow's own gradient does not build where the matrix is unknown.
)
for id, found, match in (
    ("rows", lambda tf: tf.matrix_diag(values(3, 3), k=(0, 1)), "number of rows"),
    ("order", lambda tf: tf.matrix_diag(values(2, 3), k=(1, 0)), "greater than"),
    ("small", lambda tf: tf.matrix_diag(values(2, 3), k=(0, 1), num_cols=2), "num_cols is too"),
    (
        "large",
        lambda tf: tf.matrix_diag(values(2, 3), k=(0, 1), num_rows=9, num_cols=9),
        "not consistent",
    ),
    ("outside", lambda tf: tf.matrix_diag_part(values(3, 4), k=(-3, 0)), "out of bound"),
    ("set-outside", lambda tf: tf.matrix_set_diag(values(3, 4), values(2), k=5), "out of bound"),
):
    case(f"bands-{id}", "MatrixDiagV3", found, fails="build", match=match)
case(
    "bands-misfit",
    "MatrixSetDiagV3",
    lambda tf: tf.matrix_set_diag(values(3, 4), values(2, 2), k=(-1, 0)),
    fails="run",
    match="[2, 3]",
)

case("Diag-scalar", "Diag", lambda tf: tf.diag(tf.constant(1.0)),
     fails="build", match="at least rank 1")  # fmt: skip
case("DiagPart-odd", "DiagPart", lambda tf: tf.diag_part(tf.constant(values(2))),
     fails="build", match="even and non-zero rank")  # fmt: skip
case("DiagPart-oblong", "DiagPart", lambda tf: tf.diag_part(tf.constant(values(2, 3))),
     fails="build", match="2 and 3")  # fmt: skip
case("DiagPart-oblong-fed", "DiagPart", lambda tf: tf.diag_part(
    tf.placeholder("float32", name="x")), feeds={"x:0": values(2, 3)},
    fails="run", match="[2, 3]")  # fmt: skip
case("MatrixBandPart-vector", "MatrixBandPart", lambda tf: tf.matrix_band_part([1.0], 0, 0),
     fails="run", match="two axes")  # fmt: skip
case("MatrixBandPart-too-many", "MatrixBandPart", lambda tf: tf.matrix_band_part(
    tf.constant(values(2, 3)), 4, 0), fails="run", match="num_lower")  # fmt: skip

for name in ("arg_max", "arg_min"):
    op_type = {"arg_max": "ArgMax", "arg_min": "ArgMin"}[name]
    case(f"{name}-first", op_type, lambda tf, f=name: getattr(tf, f)(tf.constant(values(3, 4)), 0))
    case(f"{name}-last", op_type, lambda tf, f=name: getattr(tf, f)(
        values(3, 4), -1, output_type=tf.int32, name="at"))  # fmt: skip
    case(f"{name}-misfit", op_type, lambda tf, f=name: getattr(tf, f)(values(3, 4), 2),
         fails="build", match="2")  # fmt: skip
