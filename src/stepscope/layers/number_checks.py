"""Checks that stop a program at the op that first makes NaN or infinity."""

from __future__ import annotations

from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import float16, float32, float64
from stepscope.graph.graph import control_dependencies, name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.ops.arrays.conversion import check_numerics
from stepscope.ops.flow import ordering
from stepscope.ops.flow.switches import FLOW

_FLOATS = (float16, float32, float64)


def add_check_numerics_ops() -> Operation:
    """An op that checks all floats of the default graph, in the order the ops were made.

    Run it beside a step: it fails at the first op whose output is no number, and names it.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     x = tf.placeholder(tf.float32, [], name="x")
    ...     y = tf.log(x, name="y")
    ...     check = tf.add_check_numerics_ops()
    ...     try:
    ...         session.run([y, check], {x: -1.0})
    ...     except tf.errors.InvalidArgumentError as error:
    ...         print(str(error).splitlines()[0])
    y:0 : Tensor had NaN values
    """
    checks: list[Operation] = []
    for op in get_default_graph().get_operations():
        for number, output in enumerate(op.outputs):
            if output.dtype not in _FLOATS:
                continue
            if op.type in FLOW:
                raise ValueError(
                    "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow "
                    f"operations such as `tf.cond()` or `tf.while_loop()`: {op.name} is of one."
                )
            with control_dependencies(checks[-1:]):
                checks.append(check_numerics(output, f"{op.name}:{number}").op)
    return ordering.group(*checks)


def verify_tensor_all_finite(
    t: Any = None, msg: str | None = None, name: str | None = None, x: Any = None,
    message: str | None = None,
) -> Tensor:  # fmt: skip
    """The tensor itself; the run fails with the message where it holds NaN or infinity.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     print(session.run(tf.verify_tensor_all_finite(2.0, "no number")))
    2.0
    """
    given, said = (t if x is None else x), (msg if message is None else message)
    with name_scope(name, "VerifyFinite", [given]):
        tensor = convert_to_tensor(given, name="x")
        with tensor.graph.colocate_with(tensor.op):
            checked = check_numerics(tensor, said or "")
            return ordering.with_dependencies([checked], tensor)
