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
    "ApplyAdaMax": ("var m v", {"beta1_power": 0.9, "lr": 0.01, "beta1": 0.9, "beta2": 0.999,
                                "epsilon": 1e-8, "grad": G}),
    "ApplyAddSign": ("var m", {"lr": 0.1, "alpha": 1.5, "sign_decay": 0.9, "beta": 0.8, "grad": G}),
    "ApplyPowerSign": ("var m", {"lr": 0.1, "logbase": 1.1, "sign_decay": 0.9, "beta": 0.8,
                                 "grad": G}),
    "ApplyAdagrad": ("var accum", {"lr": 0.1, "grad": G}),
    "ApplyAdagradV2": ("var accum", {"lr": 0.1, "epsilon": 0.01, "grad": G}),
    "ApplyAdadelta": ("var accum accum_update", {"lr": 0.1, "rho": 0.9, "epsilon": 1e-6,
                                                 "grad": G}),
    "ApplyFtrl": ("var accum linear", {"grad": G, "lr": 0.1, "l1": 0.5, "l2": 0.1,
                                       "lr_power": -0.5}),
    "ApplyFtrlV2": ("var accum linear", {"grad": G, "lr": 0.1, "l1": 0.5, "l2": 0.1,
                                         "l2_shrinkage": 0.2, "lr_power": -0.7}),
    "ApplyProximalGradientDescent": ("var", {"alpha": 0.1, "l1": 0.5, "l2": 0.1, "delta": G}),
    "ApplyProximalAdagrad": ("var accum", {"lr": 0.1, "l1": 0.5, "l2": 0.1, "grad": G}),
    "ApplyAdagradDA": ("var gradient_accumulator gradient_squared_accumulator",
                       {"grad": G, "lr": 0.1, "l1": 0.3, "l2": 0.1, "global_step": 3}),
}  # fmt: skip
WHOLE_ONLY = ("GradientDescent", "Adam", "AdaMax", "AddSign", "PowerSign")
OPTIONS = {"update_slots": False, "multiply_linear_by_lr": True, "use_nesterov": True}
OPTION_OF = {"ApplyAdagrad": "update_slots", "ApplyAdagradV2": "update_slots",
             "ApplyFtrl": "multiply_linear_by_lr", "ApplyFtrlV2": "multiply_linear_by_lr",
             "ApplyMomentum": "use_nesterov", "ApplyAdam": "use_nesterov"}  # fmt: skip
SPARSE = {
    f"Sparse{name}": (
        states,
        {
            **{k: v for k, v in values.items() if k != "delta"},
            "grad": G[:2],
            "indices": np.array(ROWS),
        },
    )
    for name, (states, values) in DENSE.items()
    if name.removeprefix("Apply") not in WHOLE_ONLY
}


def applied(op, states, values, resource, dtype, start=X, **attrs):
    def build(tf):
        held = {
            # What a slot sums up is mostly squares.
            name: tf.Variable(
                np.asarray(abs(start) + i if i else start, dtype), name=name, use_resource=resource
            )
            for i, name in enumerate(states.split())
        }
        whole = {"indices": np.int64, "global_step": np.int64}
        given = {k: np.asarray(v, whole.get(k, dtype)) for k, v in values.items()}
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
        option = OPTION_OF.get(name.removeprefix("Sparse"))
        if option is not None:
            case(f"{prefix}{name}-{option}", prefix + name, applied(
                prefix + name, states, values, bool(prefix), "float32",
                **{option: OPTIONS[option]}), tol=2e-6)  # fmt: skip
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
