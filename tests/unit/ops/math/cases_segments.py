"""Rows by segment: sums, means and extremes, of all rows and of chosen ones."""

import numpy as np
from op_cases import Case

IDS = [0, 0, 2, 2, 2, 3]
PLACES, OF = [3, 0, 0, 5, 1], [0, 0, 1, 3, 3]


def rows(count=6, dtype="float32", width=2):
    return ((np.arange(count * width) * 7 % 11 - 4).reshape(count, width) * 0.5).astype(dtype)


def sorted_ones(name):
    op_type = "Segment" + name.capitalize()

    def build(tf):
        call = getattr(tf, f"segment_{name}")
        found = [call(tf.constant(rows(6, d)), IDS) for d in ("float32", "float64")]
        found.append(call(tf.constant(rows(6, "float32", 1)[:, 0]), np.int64(IDS), name="named"))
        found.append(call(tf.placeholder(tf.float32, [None, 2], "x"), tf.constant(IDS)))
        return found

    return [
        Case(f"segments/{name}", (op_type,), build, {"x:0": rows()}),
        Case(f"segments/{name} of ints", (op_type,), lambda tf: getattr(tf, f"segment_{name}")(
            tf.constant([[-5, 2], [2, 9], [4, 4]]), [0, 0, 1])),
        Case(f"segments/{name} out of order", (), lambda tf: getattr(tf, f"segment_{name}")(
            rows(3), [1, 0, 2]), fails="run", match="segment ids are not increasing"),
    ]  # fmt: skip


def chosen_ones(name):
    op_type = "SparseSegment" + {"sum": "Sum", "mean": "Mean", "sqrt_n": "SqrtN"}[name]

    def call(tf, *arguments, **options):
        return getattr(tf, f"sparse_segment_{name}")(*arguments, **options)

    def build(tf):
        found = [call(tf, tf.constant(rows(6, d)), PLACES, OF) for d in ("float32", "float64")]
        found.append(call(tf, tf.placeholder(tf.float32, [None, 2], "x"), np.int64(PLACES),
                          tf.constant(OF), name="named"))  # fmt: skip
        return found

    def numbered(tf):
        return [call(tf, tf.constant(rows(6, d)), PLACES, OF, num_segments=n)
                for d, n in (("float32", 5), ("float64", 4))]  # fmt: skip

    def gradients(tf):
        back = getattr(tf.raw_ops, f"{op_type}Grad")
        return [back(grad=rows(4, d), indices=PLACES, segment_ids=OF, output_dim0=n)
                for d, n in (("float32", 6), ("float64", 7))]  # fmt: skip

    return [
        Case(f"segments/sparse {name}", (op_type,), build, {"x:0": rows()}),
        Case(f"segments/sparse {name} of so many", (f"{op_type}WithNumSegments",), numbered),
        # The values of this gradient are the same, as other slices.
        Case(f"segments/sparse {name} with slices", (op_type,),
             lambda tf: call(tf, tf.constant(rows()), PLACES, OF, sparse_gradient=True)),
        Case(f"segments/sparse {name} gradient", (f"{op_type}Grad",), gradients, grad=False),
        Case(f"segments/sparse {name} out of range", (),
             lambda tf: call(tf, rows(3), [0, 3], [0, 1]), fails="run",
             match="indices[1] == 3 out of range [0, 3)"),
        Case(f"segments/sparse {name} of nothing", (op_type,),
             lambda tf: call(tf, tf.constant(rows()), tf.zeros([0], tf.int32),
                             tf.zeros([0], tf.int32)),
             grad=False),  # TensorFlow gives whatever lies in memory
    ]  # fmt: skip


CASES = [
    *[case for name in ("sum", "mean", "max", "min") for case in sorted_ones(name)],
    *[case for name in ("sum", "mean", "sqrt_n") for case in chosen_ones(name)],
]
