"""Reference variables: what was read from one is its memory, in branches, in loops and outside.

Where TensorFlow's answer hangs on which of two ops is faster there is no row.
"""

import numpy as np
from op_cases import Case


def variable(tf, value=2.0, name="v"):
    return tf.Variable(value, use_resource=False, name=name)


def after(tf, waited, make):
    """What `make` gives, once what it waits for is done."""
    with tf.control_dependencies([waited]):
        return make()


# -- outside of branches and loops -------------------------------------------------------------


def read_after(tf):
    v = variable(tf)
    return after(tf, tf.assign_add(v, 1.0), lambda: v * 10.0)


def read_before(share):
    """A tensor made of what was read before an assignment, and used after it."""

    def build(tf):
        v = variable(tf, [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])
        read = share(tf, v)
        assigned = after(tf, read, lambda: tf.assign_add(v, np.ones([1, 2, 3], np.float32)))
        return after(tf, assigned, lambda: [read * 10.0, read + 0.5])

    return build


def fetched_before(tf):
    v = variable(tf)
    read = tf.identity(v)
    return [read, after(tf, read, lambda: tf.assign_add(v, 1.0))]


def twice(tf):
    v = variable(tf)
    first = v * 3.0
    assigned = after(tf, first, lambda: tf.assign_add(v, 1.0))
    return after(tf, assigned, lambda: [first, v * 3.0])


def reshaped_by_assigning(tf):
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]], use_resource=False, validate_shape=False, name="v")
    read = tf.identity(v)

    def assign():
        return tf.assign(v, [5.0, 6.0, 7.0, 8.0], validate_shape=False)

    return after(tf, after(tf, read, assign), lambda: read * 2.0)


def grown_by_assigning(tf):
    v = tf.Variable([1.0, 2.0], use_resource=False, validate_shape=False, name="v")
    read = tf.identity(v)

    def assign():
        return tf.assign(v, [5.0, 6.0, 7.0], validate_shape=False)

    return after(tf, after(tf, read, assign), lambda: read * 2.0)


def text(tf):
    v = variable(tf, ["a", "b"])
    read = tf.identity(v)
    assigned = after(tf, read, lambda: tf.assign(v, ["c", "d"]))
    return after(tf, assigned, lambda: tf.string_join([read, read]))


def identity_of_reference(value):
    def build(tf):
        v = variable(tf, value)
        ref = getattr(v, "_ref", None) or v._as_ref
        return tf.raw_ops.RefIdentity(input=ref()) * tf.constant(3.0, name="three")

    return build


# -- branches ----------------------------------------------------------------------------------


def branch_reads(value):
    def build(tf):
        v = variable(tf)
        pred = tf.constant(value, name="p")

        def changed():
            return after(tf, tf.assign_add(v, 1.0), lambda: v * 10.0)

        return tf.cond(pred, changed, lambda: v * 5.0)

    return build


def branch_assigns(value):
    """One branch gives the variable itself, the other a value."""

    def build(tf):
        v = variable(tf)
        pred = tf.constant(value, name="p")
        return tf.cond(pred, lambda: tf.assign_add(v, 1.0), lambda: tf.identity(v))

    return build


def branches_assign(value):
    def build(tf):
        v, w = variable(tf), variable(tf, 7.0, "w")
        pred = tf.constant(value, name="p")
        either = tf.cond(pred, lambda: tf.assign_add(v, 1.0), lambda: tf.assign_sub(w, 1.0))
        return [either, tf.assign_add(either, 100.0)][1:]

    return build


def branches_hand_on(tf):
    v = variable(tf)
    read = tf.cond(tf.constant(True, name="p"), lambda: v, lambda: v)
    assigned = after(tf, read, lambda: tf.assign_add(v, 1.0))
    return after(tf, assigned, lambda: read * 10.0)


def nested_branches(tf):
    v = variable(tf)
    p = tf.constant(True, name="p")
    inner = tf.cond(p, lambda: tf.assign_add(v, 1.0), lambda: tf.identity(v))
    outer = tf.cond(p, lambda: inner, lambda: tf.identity(v))
    return tf.stack([inner, outer])


# -- loops -------------------------------------------------------------------------------------


def squares(tf):
    v = variable(tf)

    def body(i):
        return after(tf, tf.assign(v, tf.square(v)), lambda: i + 1)

    done = tf.while_loop(lambda i: i < 4, body, [0])
    return after(tf, done, lambda: v + 0.5)


def condition_reads(tf):
    v = variable(tf)
    step = tf.constant(1.0, name="step")
    return tf.while_loop(
        lambda _i: tf.less(v, 10.0),
        lambda i: after(tf, tf.assign_add(v, step), lambda: i + 1),
        [0],
    )


def changed_twice(tf):
    v = variable(tf)

    def body(i):
        first = tf.assign(v, tf.square(v))
        second = after(tf, first, lambda: tf.assign(v, v + 1.0))
        return after(tf, second, lambda: i + 1)

    done = tf.while_loop(lambda i: i < 3, body, [0])
    return after(tf, done, lambda: v + 0.5)


def loop_variable_is_one(tf):
    v = variable(tf)

    def body(x):
        return after(tf, tf.assign_add(v, 1.0), lambda: x * 2.0)

    return tf.while_loop(lambda x: x < 20.0, body, [v])


def never_begins(tf):
    v = variable(tf)
    left = tf.while_loop(lambda x: x < 0.0, lambda x: x + 1.0, [v])
    assigned = after(tf, left, lambda: tf.assign_add(v, 5.0))
    return after(tf, assigned, lambda: left * 2.0)


def loop_variable_is_assigned(tf):
    v = variable(tf)
    return tf.while_loop(lambda x: x < 10.0, lambda _x: tf.assign_add(v, 1.0), [0.0])


def loop_variable_is_a_reference(tf):
    v = variable(tf)
    first = tf.assign_add(v, 1.0)
    return tf.while_loop(lambda x: x < 10.0, lambda _x: tf.assign_add(v, 1.0), [first])


def nested_loops(tf):
    v = variable(tf)

    def inner(j):
        return after(tf, tf.assign(v, v * 2.0), lambda: j + 1)

    def outer(i):
        done = tf.while_loop(lambda j: j < 2, inner, [0])
        added = after(tf, done, lambda: tf.assign_add(v, 1.0))
        return after(tf, added, lambda: i + 1)

    done = tf.while_loop(lambda i: i < 3, outer, [0])
    return after(tf, done, lambda: v + 0.5)


def branch_in_loop(tf):
    v = variable(tf)

    def body(i):
        either = tf.cond(
            tf.less(v, 5.0), lambda: tf.assign_add(v, 2.0), lambda: tf.assign(v, v * 3.0)
        )
        return after(tf, either, lambda: i + 1)

    done = tf.while_loop(lambda i: i < 4, body, [0])
    return after(tf, done, lambda: v + 0.5)


def loop_in_branch(tf):
    v = variable(tf)

    def body(i):
        return after(tf, tf.assign(v, tf.square(v)), lambda: i + 1)

    def loop():
        return after(tf, tf.while_loop(lambda i: i < 2, body, [0]), lambda: v + 0.5)

    return tf.cond(v < 5.0, loop, lambda: v + 0.25)


def rows_in_loop(tf):
    v = variable(tf, [1.0, 2.0, 3.0])

    def body(i):
        changed = tf.scatter_add(v, [i], [tf.reduce_sum(v)])
        return after(tf, changed, lambda: i + 1)

    done = tf.while_loop(lambda i: i < 3, body, [0])
    return after(tf, done, lambda: v * 10.0)


def loop_waits(tf):
    p = tf.placeholder(tf.float32, name="p")
    with tf.control_dependencies([p]):
        return tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])


def loop_waits_for_an_assignment(tf):
    v = variable(tf)
    with tf.control_dependencies([tf.no_op(), tf.assign_add(v, 1.0)]):
        return tf.while_loop(
            lambda i, _x: i < 3, lambda i, x: (i + 1, x + tf.constant(5.0) * v), [0, 0.0]
        )


def assigns_what_is_fed(tf):
    v = variable(tf)
    return tf.assign_add(v, 1.0)


def loop_variable_turns_value(tf):
    v = variable(tf)
    first = tf.assign_add(v, 1.0)
    return tf.while_loop(lambda x: x < 10.0, lambda x: x + 1.0, [first])


def row(name, op_types, build, **more):
    # Assignments have no gradients; what a loop has is another row's subject.
    return Case(f"reference/{name}", op_types, build, init=True, grad=False, **more)


_SHARES = {
    "identity": (("Identity",), lambda tf, v: tf.identity(v)),
    "chain": (("Identity",), lambda tf, v: tf.identity(tf.identity(tf.identity(v)))),
    "stop_gradient": (("StopGradient",), lambda tf, v: tf.stop_gradient(v)),
    "reshape": (("Reshape",), lambda tf, v: tf.reshape(v, [3, 2])),
    "squeeze": (("Squeeze",), lambda tf, v: tf.squeeze(v, [0])),
    "expand_dims": (("ExpandDims",), lambda tf, v: tf.expand_dims(v, 0)),
    "transpose": (("Transpose",), lambda tf, v: tf.transpose(v)),
    "column": (("StridedSlice",), lambda tf, v: v[:, 1]),
    "gather": (("GatherV2",), lambda tf, v: tf.gather(v, [0])),
}

CASES = [
    *(
        Case(f"reference/RefIdentity/{tag}", ("RefIdentity",), identity_of_reference(value),
             init=True)
        for tag, value in (("scalar", 2.0), ("vector", [1.0, 2.0]))
    ),
    row("read_after", ("AssignAdd",), read_after),
    *(row(f"read_before/{k}", types, read_before(f)) for k, (types, f) in _SHARES.items()),
    row("fetched_before", ("AssignAdd",), fetched_before),
    row("twice", ("AssignAdd",), twice),
    row("reshaped_by_assigning", ("Assign",), reshaped_by_assigning),
    row("grown_by_assigning", ("Assign",), grown_by_assigning),
    row("text", ("Assign",), text),
    *(row(f"branch_reads/{b}", ("Switch", "Merge"), branch_reads(b)) for b in (True, False)),
    *(row(f"branch_assigns/{b}", ("Merge",), branch_assigns(b)) for b in (True, False)),
    *(row(f"branches_assign/{b}", ("RefMerge",), branches_assign(b)) for b in (True, False)),
    row("branches_hand_on", ("Merge",), branches_hand_on),
    row("nested_branches", ("Merge",), nested_branches),
    row("squares", ("Enter", "RefEnter"), squares),
    row("condition_reads", ("LoopCond", "RefEnter"), condition_reads),
    row("changed_twice", ("Enter",), changed_twice),
    row("loop_variable_is_one", ("Enter",), loop_variable_is_one),
    row("never_begins", ("Exit",), never_begins),
    row("loop_variable_is_assigned", ("RefNextIteration",), loop_variable_is_assigned),
    row("loop_variable_is_a_reference", ("RefMerge", "RefExit", "RefIdentity"),
        loop_variable_is_a_reference),
    row("nested_loops", ("Enter", "RefEnter"), nested_loops),
    row("branch_in_loop", ("Switch", "RefSwitch"), branch_in_loop),
    row("loop_in_branch", ("Enter", "Switch"), loop_in_branch),
    row("rows_in_loop", ("ScatterAdd", "RefEnter"), rows_in_loop),
    row("loop_waits", ("Enter",), loop_waits, feeds={"p:0": np.float32(1)}),
    row("loop_waits_for_an_assignment", ("RefEnter",), loop_waits_for_an_assignment),
    row("assigns_what_is_fed", ("AssignAdd",), assigns_what_is_fed, feeds={"v:0": 5.0},
        fails="run", match="incompatible with expected"),
    row("loop_variable_turns_value", ("RefMerge",), loop_variable_turns_value, fails="run",
        match="incompatible with expected"),
]  # fmt: skip
