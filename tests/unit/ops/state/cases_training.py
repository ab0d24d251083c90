"""The ops that apply gradients to variables."""

from __future__ import annotations

import numpy as np
from op_cases import Case

CASES: list[Case] = []
X = np.array([[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25]])
G = np.array([[0.5, 1.0], [-2.0, 0.0], [1.5, -0.75]])
ROWS = [2, 0]

DENSE = {
    "ApplyGradientDescent": ("var", {"alpha": 0.1, "delta": G}),
    "ApplyMomentum": ("var accum", {"lr": 0.1, "grad": G, "momentum": 0.9}),
    "ApplyAdam": ("var m v", {"beta1_power": 0.9, "beta2_power": 0.999, "lr": 0.01, "beta1": 0.9,
                              "beta2": 0.999, "epsilon": 1e-8, "grad": G}),
    "ApplyRMSProp": ("var ms mom", {"lr": 0.1, "rho": 0.9, "momentum": 0.5, "epsilon": 1e-10,
                                    "grad": G}),
    "ApplyCenteredRMSProp": ("var mg ms mom", {"lr": 0.1, "rho": 0.9, "momentum": 0.5,
                                               "epsilon": 20.0, "grad": G}),
}  # fmt: skip
SPARSE = {
    f"Sparse{name}": (states, {**values, "grad": G[:2], "indices": np.array(ROWS)})
    for name, (states, values) in DENSE.items()
    if name not in ("ApplyGradientDescent", "ApplyAdam")
}


def applied(op, states, values, resource, dtype, start=X, **attrs):
    def build(tf):
        held = {
            name: tf.Variable(np.asarray(start + i, dtype), name=name, use_resource=resource)
            for i, name in enumerate(states.split())
        }
        given = {k: v if k == "indices" else np.asarray(v, dtype) for k, v in values.items()}
        arguments = {n: v.handle if resource else v for n, v in held.items()}
        result = getattr(tf.raw_ops, op)(**arguments, **given, **attrs)
        with tf.control_dependencies([result]):
            return [v.read_value() for v in held.values()]

    return build


def case(id, op, build, **more):
    # No gradient goes through an update. The names of variables' nodes are the variables' rows.
    CASES.append(Case(id, (op,), build, init=True, grad=False, graph=False, **more))


for name, (states, values) in {**DENSE, **SPARSE}.items():
    for prefix in ("", "Resource"):
        for dtype in ("float32", "float64"):
            case(f"{prefix}{name}-{dtype}", prefix + name,
                 applied(prefix + name, states, values, bool(prefix), dtype), tol=2e-6)  # fmt: skip
        cube = {k: v[:, None] if np.ndim(v) == 2 else v for k, v in values.items()}
        build = applied(prefix + name, states, cube, bool(prefix), "float32", X[:, None])
        case(f"{prefix}{name}-rank3", prefix + name, build, tol=2e-6)
        if "Momentum" in name or name == "ApplyAdam":
            case(f"{prefix}{name}-nesterov", prefix + name, applied(
                prefix + name, states, values, bool(prefix), "float32", use_nesterov=True),
                tol=2e-6)  # fmt: skip
for name in SPARSE:
    states, values = SPARSE[name]
    twice = {**values, "indices": np.array([1, 1])}
    case(f"{name}-twice", name, applied(name, states, twice, False, "float64"))
    outside = {**values, "indices": np.array([1, 3])}
    CASES.append(Case(f"{name}-outside", (name,), applied(name, states, outside, False, "float32"),
                      init=True, fails="run"))  # fmt: skip

for name in ("ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterUpdate"):

    def scattered(tf, name=name):
        v = tf.Variable(X, name="v", use_resource=True)
        op = getattr(tf.raw_ops, name)(resource=v.handle, indices=[2, 0], updates=G[:2])
        with tf.control_dependencies([op]):
            return v.read_value()

    case(name, name, scattered)


def variable_shape(tf):
    v = tf.Variable(X, name="v", use_resource=True)
    return tf.reshape(tf.raw_ops.VariableShape(input=v.handle), [2])


case("VariableShape", "VariableShape", variable_shape)
