"""Ordering, printing, asserting; and collectives, which can be built but not run."""

import numpy as np
from op_cases import Case

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def grouped(tf):
    x, y = tf.constant(1.0, name="x"), tf.constant(2, name="y")
    inner = tf.group(x, y)
    return [inner, tf.group(y.op, [x, {"k": inner}], name="outer"), tf.no_op(), tf.group()]


def on_devices(tf):
    graph = tf.no_op("start").graph
    with graph.device("/cpu:0"):
        x = tf.constant(1.0, name="x")
    with graph.device("/cpu:1"):
        y = tf.constant(1.0, name="y")
    tf.group(x, y)
    return tf.constant(3.0)


def tupled(tf):
    x, y = tf.constant(1.0, name="x"), tf.constant([2, 3], name="y")
    gate = tf.no_op(name="gate")
    return [*tf.tuple([x, y]), *tf.tuple([x], name="t", control_inputs=[gate])]


def printed(tf):
    return tf.Print(tf.constant(X), [X, 1], message="x is ", first_n=2, summarize=4)


def asserted(condition):
    def build(tf):
        return tf.Assert(tf.constant(condition), [tf.constant([1, 2, 3, 4])], summarize=2)

    return build


def reduced(op_type, run=False):
    def build(tf):
        attrs = {"merge_op": "Add", "final_op": "Id"}
        if op_type == "CollectiveReduce":
            attrs |= {"group_size": 2, "group_key": 1, "instance_key": 1, "subdiv_offsets": [0]}
        else:
            attrs |= {"group_size": 2, "group_key": 1, "instance_key": 1, "ordering_token": []}
        result = getattr(tf.raw_ops, op_type)(input=X, **attrs)
        return result if run else tf.shape(result.op.inputs[0])

    return build


CASES = [
    Case("group", ("NoOp",), grouped),
    Case("group/devices", ("NoOp",), on_devices),
    Case("tuple", ("NoOp", "Identity"), tupled),
    Case("Print", ("Print",), printed),
    Case("PrintV2", ("PrintV2",), lambda tf: tf.raw_ops.PrintV2(input="a line", end="")),
    Case("Assert", ("Assert",), asserted(True)),
    Case("Assert/scalar", ("Assert",), lambda tf: tf.raw_ops.Assert(condition=True, data=[X])),
    Case("collective", ("CollectiveReduce",), reduced("CollectiveReduce")),
    Case("collective/2", ("CollectiveReduceV2",), reduced("CollectiveReduceV2")),
    Case("Assert/fails", (), asserted(False), fails="run", match="assertion failed: [1 2...]"),
    Case("Assert/vector", (), lambda tf: tf.raw_ops.Assert(condition=[True], data=[X]),
         fails="run", match="should be a scalar: [1]"),
    Case("tuple/nothing", (), lambda tf: tf.tuple([None]), fails="build", match="at least one"),
    Case("group/number", (), lambda tf: tf.group(1), fails="build", match="(nested) Tensors"),
]  # fmt: skip
