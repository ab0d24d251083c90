"""Conditionals, loops and TensorArrays, and the op types they are made of."""

import numpy as np
from op_cases import Case

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def chosen(value):
    """One branch uses two tensors from outside, the other a constant and one of them."""

    def build(tf):
        x = tf.constant(X, name="x")
        y = tf.constant(2.0, name="y")
        pred = tf.constant(value, name="p")
        return tf.cond(pred, lambda: x * y, lambda: tf.constant(1.0) - x)

    return build


def structured(tf):
    x = tf.constant(3.0, name="x")
    big = tf.less(x, 2.0)
    a, b = tf.cond(big, lambda: [x + 1.0, x], lambda: [x, tf.constant(7.0)], name="pick")
    return [a, b]


def differentiable(value, use_resource):
    """Nothing in the branches but what comes from outside."""

    def build(tf):
        x = tf.constant(X, name="x")
        y = tf.constant(2.0, name="y")
        v = tf.Variable(3.0, name="v", use_resource=use_resource)
        pred = tf.constant(value, name="p")
        inner = tf.cond(pred, lambda: x * y, lambda: tf.square(x) - y)
        return tf.cond(tf.logical_not(pred), lambda: inner * v + x * v, lambda: inner * x * v)

    return build


def nested_differentiable(outer, inner, use_resource):
    """Branches in branches, some of which give what is outside of both as it is."""

    def build(tf):
        x = tf.constant(X, name="x")
        y = tf.constant(2.0, name="y")
        v = tf.Variable(3.0, name="v", use_resource=use_resource)
        p, q = tf.constant(outer, name="p"), tf.constant(inner, name="q")

        def within():
            return v * tf.cond(q, lambda: x * v, lambda: x) + tf.cond(q, lambda: x, lambda: x * y)

        def other():
            deeper = tf.cond(p, lambda: x, lambda: tf.cond(q, lambda: x * x, lambda: x))
            return tf.cond(q, lambda: deeper * v, lambda: x)

        return tf.cond(p, within, other)

    return build


def nested_cond(tf):
    x = tf.constant(5.0, name="x")

    def inner():
        return tf.cond(tf.less(x, 1.0), lambda: x - 1.0, lambda: x * 10.0)

    return tf.cond(tf.greater(x, 0.0), inner, lambda: -x)


def with_ops(tf):
    x = tf.constant(1.0, name="x")
    gate = tf.constant(True, name="gate")
    tf.cond(gate, lambda: tf.group(x), lambda: tf.no_op())
    return x


def cases(tf):
    x = tf.constant(4, name="x")
    pairs = [(tf.less(x, 3), lambda: tf.constant(10)), (tf.less(x, 5), lambda: tf.constant(20))]
    return tf.case(pairs, default=lambda: tf.constant(30))


def counted(tf):
    i, s = tf.constant(0, name="i"), tf.constant(0.0, name="s")
    step = tf.constant(0.5, name="step")
    return tf.while_loop(lambda i, s: i < 5, lambda i, s: [i + 1, s + step], [i, s])


def limited(tf):
    return tf.while_loop(
        lambda i: tf.constant(True), lambda i: i + 2, [tf.constant(0, name="i")],
        maximum_iterations=7,
    )  # fmt: skip


def growing(tf):
    x = tf.constant([1.0], name="x")
    n = tf.constant(0, name="n")
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    return tf.while_loop(lambda n, x: n < 3, lambda n, x: [n + 1, tf.concat([x, x], 0)], [n, x],
                         shape_invariants=shapes, parallel_iterations=1)  # fmt: skip


def loops_in_loops(tf):
    def body(i, total):
        inner = tf.while_loop(lambda j, t: j < i, lambda j, t: [j + 1, t + j * i], [0, total])
        return [i + 1, inner[1]]

    start = [tf.constant(0, name="i"), tf.constant(0, name="t")]
    return tf.while_loop(lambda i, t: i < 4, body, start)


def cond_in_loop(tf):
    def body(i, x):
        x = tf.cond(tf.equal(i % 2, 0), lambda: x + tf.cast(i, tf.float32), lambda: x * 2.0)
        return [i + 1, x]

    start = [tf.constant(0, name="i"), tf.constant(1.0, name="x")]
    return tf.while_loop(lambda i, x: i < 6, body, start)


def loop_in_cond(tf):
    x = tf.constant(3.0, name="x")
    yes = tf.constant(True, name="yes")

    def loop():
        return tf.while_loop(lambda v: v < 50.0, lambda v: v * x, [x])

    return tf.cond(yes, loop, lambda: x)


def by_hand(tf):
    """The op types themselves, as an importer meets them."""
    raw = tf.raw_ops
    pred = tf.constant(True, name="p")
    false, true = raw.Switch(data=tf.constant(1.0, name="x"), pred=pred)[:2]
    merged = raw.Merge(inputs=[false + 1.0, true + 2.0])
    entered = raw.Enter(data=tf.constant(2.0, name="e"), frame_name="f")
    again = raw.Merge(inputs=[entered, entered])[0]
    goes_on = raw.LoopCond(input=tf.less(again, again))
    left = raw.Exit(data=raw.Switch(data=again, pred=goes_on)[0])
    return [merged[0], merged[1], left]


def read_and_write(tf):
    array = tf.TensorArray(tf.float32, size=3, clear_after_read=False)
    array = array.write(0, X).write(2, X + 1.0).write(1, X * 2.0)
    return [array.read(2), array.stack(), array.gather([0, 2]), array.size()]


def unstacked(tf):
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, name="rows")
    array = array.unstack(X)
    return [array.concat(), array.size()]


def scattered(tf):
    array = tf.TensorArray(tf.int32, size=4, infer_shape=False, tensor_array_name="ints")
    array = array.scatter([3, 0], tf.constant([[1, 2], [3, 4]], name="v"))
    return [array.read(0), array.read(3)]


def split_up(tf):
    array = tf.TensorArray(tf.int32, size=3, infer_shape=False)
    array = array.split(tf.constant([5, 6, 7], name="w"), [1, 0, 2])
    return [array.read(2), array.read(0)]


def squares(tf):
    def body(i, array):
        return [i + 1, array.write(i, tf.cast(i * i, tf.float32))]

    array = tf.TensorArray(tf.float32, 5)
    start = [tf.constant(0, name="i"), array]
    _, array = tf.while_loop(lambda i, _: i < 5, body, start)
    return array.stack()


def closed(tf):
    array = tf.TensorArray(tf.float32, size=1)
    return [tf.constant(1.0), array.close()]


def assigned_in_branch(tf):
    v = tf.Variable(1.0, name="v", use_resource=False)
    yes = tf.constant(True, name="yes")
    return tf.cond(yes, lambda: tf.assign_add(v, 2.0), lambda: tf.assign_add(v, 3.0))


def assigned_in_loop(tf):
    v = tf.Variable(1.0, name="v", use_resource=False)

    def body(i):
        with tf.control_dependencies([tf.assign_add(v, 2.0)]):
            return i + 1

    i = tf.while_loop(lambda i: i < 4, body, [tf.constant(0, name="i")], parallel_iterations=1)
    with tf.control_dependencies([i]):
        return [i, tf.assign_add(v, 0.0)]


def refs(tf):
    raw = tf.raw_ops
    v = tf.Variable(5.0, name="v", use_resource=False)
    ref = getattr(v, "_ref", None) or v._as_ref
    entered = raw.RefEnter(data=ref(), frame_name="f")
    merged = raw.RefMerge(inputs=[entered, entered])[0]
    goes_on = raw.LoopCond(input=tf.less(merged, merged))
    false, true = raw.RefSwitch(data=merged, pred=goes_on)[:2]
    raw.RefNextIteration(data=true)
    return tf.identity(raw.RefExit(data=false))


def stacked(tf):
    raw = tf.raw_ops
    stack = raw.StackV2(max_size=-1, elem_type=tf.float32)
    first = raw.StackPushV2(handle=stack, elem=tf.constant(X, name="x"))
    with first.graph.control_dependencies([first]):
        second = raw.StackPushV2(handle=stack, elem=tf.constant(X + 1.0, name="y"))
    with first.graph.control_dependencies([second]):
        popped = raw.StackPopV2(handle=stack, elem_type=tf.float32)
    with first.graph.control_dependencies([popped]):
        again = raw.StackPopV2(handle=stack, elem_type=tf.float32)
    with first.graph.control_dependencies([again]):
        closing = raw.StackCloseV2(handle=stack)
    return [first, popped, again, closing]


def popped_empty(tf):
    stack = tf.raw_ops.StackV2(max_size=1, elem_type=tf.float32)
    return tf.raw_ops.StackPopV2(handle=stack, elem_type=tf.float32)


def array_of_gradients(tf):
    raw = tf.raw_ops
    array = tf.TensorArray(tf.float32, size=2).write(0, X).write(1, X)
    grads = raw.TensorArrayGradV3(handle=array.handle, flow_in=array.flow, source="gradients")
    handle, flow = grads[0], grads[1]
    for _ in range(2):
        flow = raw.TensorArrayWriteV3(handle=handle, index=0, value=tf.constant(X), flow_in=flow)
    both = raw.TensorArrayGatherV3(handle=handle, indices=[0, 1], flow_in=flow, dtype=tf.float32)
    return tf.identity(both)


def offsets(tf):
    found = tf.raw_ops.ConcatOffset(concat_dim=1, shape=[[2, 3], [2, 1], [2, 4]])
    return list(found)


def written_twice(tf):
    array = tf.TensorArray(tf.float32, size=1)
    return array.write(0, 1.0).write(0, 2.0).flow


def read_twice(tf):
    array = tf.TensorArray(tf.float32, size=1).write(0, 1.0)
    first = array.read(0)
    with array.flow.graph.control_dependencies([first]):
        return array.read(0)


def out_of_bounds(tf):
    return tf.TensorArray(tf.float32, size=1).write(3, 1.0).flow


def shrinking(tf):
    return tf.while_loop(
        lambda i, x: i < 3, lambda i, x: [i + 1, x[1:]], [tf.constant(0), tf.constant(X)]
    )


def recurrent(dtype):
    """What is written in one loop is read in another, and both are differentiated."""

    def build(tf):
        x = tf.constant(np.linspace(-1.0, 1.0, 6).reshape(3, 2), dtype, name="x")
        w = tf.Variable(np.array([[0.5, -1.0], [2.0, 0.25]], dtype), name="w", use_resource=False)
        array = tf.TensorArray(dtype, 3).unstack(x)
        made = tf.TensorArray(dtype, 3, element_shape=[2], clear_after_read=False)

        def body(i, h, made):
            h = tf.tanh(tf.matmul(h, w) + array.read(i))
            return [i + 1, h, made.write(i, h[0])]

        start = [tf.constant(0, name="i"), tf.zeros([1, 2], dtype), made]
        _, h, made = tf.while_loop(lambda i, *_: i < 3, body, start)
        return [h, made.stack(), made.gather([2, 0])] if dtype == "float32" else [h, made.concat()]

    return build


def pieces(dtype):
    def build(tf):
        x = tf.constant(np.arange(6.0), dtype, name="x")
        array = tf.TensorArray(dtype, 3, infer_shape=False, clear_after_read=False)
        array = array.split(x * x, [1, 3, 2])
        return [array.read(1), array.concat()]

    return build


ROWS = np.array([[1.0, 2.0], [3.0, -4.0], [5.0, 0.5]])


def mapped(tf):
    x, y = tf.constant(ROWS, name="x"), tf.constant([1.0, 2.0, 3.0], name="y")
    square = tf.map_fn(lambda r: r * r, tf.constant(ROWS, "float32"))
    kinds = {"sum": tf.float64, "sign": tf.bool}
    both = tf.map_fn(
        lambda t: {"sum": t[0] * tf.cast(t[1], "float64"), "sign": t[1] > 1.5}, (x, y), dtype=kinds
    )
    return [square, both["sum"], both["sign"]]


def mapped_rows_fed(tf):
    x = tf.placeholder("float32", [None, 2], name="x")
    return [tf.map_fn(tf.reduce_sum, x), tf.map_fn(lambda r: r * 2.0, x, parallel_iterations=1)]


def scanned(tf):
    x = tf.constant(ROWS, name="x")
    pair = tf.scan(
        lambda a, r: (a[0] + r, a[1] * tf.sin(r)), x, (tf.zeros([2], "float64"), x[0]), name="pair"
    )
    return [tf.scan(lambda a, r: a * r, x), tf.scan(lambda a, r: a - r, x, reverse=True), *pair]


def folded(tf):
    x, y = tf.constant(ROWS, name="x"), tf.constant([1.0, 2.0, 3.0], "float64", name="y")
    pair = tf.foldl(lambda a, r: a + tf.sin(r[0]) * r[1], (x, y), initializer=x[1])
    return [tf.foldl(lambda a, r: a * r, x), tf.foldr(lambda a, r: a * 0.5 - r, x), pair,
            tf.foldr(lambda a, r: a / 2.0 + r, x, initializer=tf.ones([2], "float64"))]  # fmt: skip


# Gradients of ops by hand are not compared: loops have theirs as a whole, stacks have none.
CASES = [
    Case("cond/true", ("Switch", "Merge"), chosen(True)),
    Case("cond/false", ("Switch", "Merge"), chosen(False)),
    Case("cond/gradient/true", ("Switch", "Merge"), differentiable(True, False), init=True),
    Case("cond/gradient/false", ("Switch", "Merge"), differentiable(False, False), init=True),
    Case("cond/gradient/resource", ("Switch", "Merge"), differentiable(False, True), init=True),
    Case("cond/structure", ("Switch", "Merge"), structured),
    *(
        Case(f"cond/gradient/nested/{p}/{q}/{r}", ("Switch", "Merge"),
             nested_differentiable(p, q, r), init=True)
        for p in (True, False) for q in (True, False) for r in (True, False)
    ),
    Case("cond/nested", ("Switch", "Merge"), nested_cond),
    Case("cond/ops", ("Switch", "Merge"), with_ops),
    Case("cond/assign", ("RefSwitch",), assigned_in_branch, init=True, grad=False),
    Case("case", ("Switch", "Merge"), cases, graph=False),  # TensorFlow asserts first
    Case("while_loop", ("Enter", "Exit", "NextIteration", "LoopCond"), counted),
    Case("while_loop/limit", ("Enter", "LoopCond"), limited),
    Case("while_loop/growing", ("Enter", "Exit"), growing),
    Case("while_loop/nested", ("Enter", "Exit"), loops_in_loops),
    Case("while_loop/cond", ("Enter", "Switch", "Merge"), cond_in_loop),
    Case("while_loop/assign", ("RefEnter",), assigned_in_loop, init=True, grad=False),
    Case("cond/while_loop", ("Enter", "Switch", "Merge"), loop_in_cond),
    Case("control flow by hand", ("Switch", "Merge", "Enter", "Exit", "LoopCond"), by_hand,
         graph=False, grad=False),  # TensorFlow's raw_ops name constants otherwise
    Case("control flow by hand/references", ("RefEnter", "RefMerge", "RefSwitch", "RefExit",
                                             "RefNextIteration"), refs, init=True, graph=False,
         grad=False),
    Case("ControlTrigger", ("ControlTrigger",),
         lambda tf: [tf.raw_ops.ControlTrigger(), tf.constant(1)]),
    Case("TensorArray", ("TensorArrayV3", "TensorArrayWriteV3", "TensorArrayReadV3",
                         "TensorArrayGatherV3"), read_and_write),
    Case("TensorArray/unstack", ("TensorArrayScatterV3", "TensorArrayConcatV3",
                                 "TensorArraySizeV3"), unstacked),
    Case("TensorArray/scatter", ("TensorArrayScatterV3",), scattered),
    Case("TensorArray/split", ("TensorArraySplitV3",), split_up),
    Case("TensorArray/loop", ("TensorArrayWriteV3", "Enter"), squares),
    Case("TensorArray/recurrent", ("TensorArrayReadV3", "Enter"), recurrent("float32"), init=True,
         graph=False),  # the order of the nodes that convert 0 differs
    Case("TensorArray/recurrent/double", ("TensorArrayReadV3", "Enter"), recurrent("float64"),
         init=True, graph=False),
    Case("TensorArray/pieces", ("TensorArraySplitV3", "TensorArrayConcatV3"), pieces("float32")),
    Case("TensorArray/pieces/double", ("TensorArraySplitV3",), pieces("float64")),
    Case("TensorArray/close", ("TensorArrayCloseV3",), closed),
    # TensorFlow's function forms name some nodes otherwise.
    Case("map_fn", ("TensorArrayScatterV3", "Enter"), mapped, graph=False),
    Case("map_fn/fed", ("TensorArrayScatterV3", "Enter"), mapped_rows_fed, graph=False,
         feeds={"x:0": ROWS}),
    Case("map_fn/scalar", ("Enter",), lambda tf: tf.map_fn(lambda r: r, tf.constant(1.0)),
         fails="build", match="scalar"),
    Case("scan", ("TensorArrayScatterV3", "Enter"), scanned, graph=False, tol=1e-5),
    Case("fold", ("TensorArrayScatterV3", "Enter"), folded, graph=False, tol=1e-5),
    Case("Stack", ("StackV2", "StackPushV2", "StackPopV2", "StackCloseV2"), stacked, grad=False),
    Case("Stack/empty", ("StackPopV2",), popped_empty, fails="run", match="is empty"),
    Case("TensorArrayGradV3", ("TensorArrayGradV3",), array_of_gradients, grad=False),
    Case("ConcatOffset", ("ConcatOffset",), offsets),
    Case("TensorArray/written twice", ("TensorArrayWriteV3",), written_twice, fails="run",
         match="already been written"),
    Case("TensorArray/read twice", ("TensorArrayReadV3",), read_twice, fails="run",
         match="cleared after a previous read"),
    Case("TensorArray/bounds", ("TensorArrayWriteV3",), out_of_bounds, fails="run",
         match="not resizeable and size is: 1"),
    Case("while_loop/shape", ("Enter",), shrinking, fails="build", match="shape_invariants"),
    Case("cond/types", ("Merge",),
         lambda tf: tf.cond(tf.constant(True), lambda: 1.0, lambda: 1), fails="build",
         match="same type"),
    Case("cond/bool", ("Merge",), lambda tf: tf.cond(True, lambda: 1.0, lambda: 1.0),
         fails="build", match="Python bool"),
]  # fmt: skip
