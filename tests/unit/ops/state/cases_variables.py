"""Variables: the nodes they make, and what a run sees of them.

Each row is one run of a new session, so it initialises what it reads itself.
"""

import numpy as np
from op_cases import Case

RANDOM = np.random.default_rng(7).normal(size=(3, 2)).astype(np.float32)


def variable(tf, value, name="v", **keywords):
    return tf.Variable(value, name=name, use_resource=False, **keywords)


def resource(tf, value, name="v", **keywords):
    return tf.Variable(value, name=name, use_resource=True, **keywords)


def after_init(then, make=variable, value=RANDOM):
    """`then(tf, v)` for a variable that is initialised before."""

    def build(tf):
        v = make(tf, value)
        with tf.control_dependencies([v.initializer]):
            return then(tf, v)

    return build


def assigned_elsewhere(tf):
    v = variable(tf, [1.0, 2.0])
    return tf.assign(v, tf.placeholder(tf.float32, [None], name="x"))


def without_a_shape(tf):
    x = tf.placeholder(tf.float32, name="x")
    v = variable(tf, x, validate_shape=False)
    with tf.control_dependencies([v.initializer]):
        return v.read_value()


def old_variable(tf):
    v = tf.raw_ops.Variable(shape=[2], dtype=tf.int32)
    return tf.raw_ops.Assign(ref=v, value=[4, 5])


def in_a_scope(tf):
    with tf.name_scope("layer"):
        return [tf.assign(variable(tf, lambda: tf.zeros([2, 3]), "w"), np.ones([2, 3])),
                tf.assign(variable(tf, np.float64(2), "w"), 3.0)]  # fmt: skip


def initialised(tf):
    v = variable(tf, 3)
    variable(tf, [True, False], "b")
    with tf.control_dependencies([tf.global_variables_initializer()]):
        return v.read_value()


def after_two_updates(tf):
    v = variable(tf, [1, 2])
    with tf.control_dependencies([v.initializer]):
        first = v.assign_add([10, 20])
    with tf.control_dependencies([first]):
        second = v.assign_sub([1, 1])
    with tf.control_dependencies([second]):
        return v.read_value()


def reports(tf):
    known, _ = variable(tf, 1, "known"), variable(tf, 2, "unknown")
    resource(tf, 3, "also")
    with tf.control_dependencies([known.initializer]):
        return tf.report_uninitialized_variables()


def uses(tf):
    v = variable(tf, RANDOM)
    return [v + 1.0, 2.0 * v, -v, v[1], v > 0.0, tf.matmul(v, v, transpose_b=True), v]


def gathered(tf, v):
    return tf.raw_ops.ResourceGather(resource=v.handle, indices=[2, 0], dtype=tf.float32)


def read_resource(tf, v):
    return [v.read_value(), v + 1.0, v.value()]


CASES = [
    Case("assign", ("VariableV2", "Assign"), lambda tf: tf.assign(variable(tf, 3), 4)),
    Case("assign/method", ("Assign",), lambda tf: variable(tf, [1.0]).assign([2.0])),
    Case("assign/strings", ("Assign",), lambda tf: tf.assign(variable(tf, ["a", "b"]), ["c", ""])),
    Case("assign/old", ("Variable", "Assign"), old_variable),
    Case("assign/any", ("Assign",), lambda tf: tf.assign(variable(tf, [1.0, 2.0]), [1.0, 2.0, 3.0],
         validate_shape=False)),
    Case("assign/scopes", ("VariableV2",), in_a_scope),
    Case("assign/fed", ("Assign",), assigned_elsewhere, {"x:0": [3.0, 4.0]}),
    Case("variable/unknown shape", ("VariableV2",), without_a_shape, {"x:0": [[3.0, 4.0]]}),
    Case("variable/init", ("VariableV2", "NoOp"), initialised),
    Case("variable/operators", ("VariableV2",), uses, init=True),
    Case("variable/read", ("VariableV2",), after_init(lambda tf, v: v.read_value())),
    Case("assign_add", ("AssignAdd",), after_init(lambda tf, v: v.assign_add(RANDOM))),
    Case("assign_sub", ("AssignSub",), after_init(lambda tf, v: tf.assign_sub(v, RANDOM))),
    Case("assign/chain", ("AssignAdd", "AssignSub"), after_two_updates),
    Case("count_up_to", ("CountUpTo",), after_init(
         lambda tf, v: tf.count_up_to(v, 3), value=np.int32(1))),
    Case("count_up_to/int64", ("CountUpTo",), after_init(
         lambda tf, v: v.count_up_to(2), value=np.int64(1))),
    Case("count_up_to/resource", ("ResourceCountUpTo",), after_init(
         lambda tf, v: v.count_up_to(9), make=resource, value=np.int32(8))),
    Case("count_up_to/at_its_limit", ("CountUpTo",), after_init(
         lambda tf, v: tf.count_up_to(v, 3), value=np.int32(3)),
         fails="run", match="Reached limit of 3"),
    Case("is_variable_initialized", ("IsVariableInitialized",),
         lambda tf: tf.raw_ops.IsVariableInitialized(ref=variable(tf, 1)._as_graph_element())),
    Case("is_variable_initialized/yes", ("IsVariableInitialized",), after_init(
         lambda tf, v: tf.raw_ops.IsVariableInitialized(ref=v._as_graph_element()))),
    Case("scatter_update", ("ScatterUpdate",),
         after_init(lambda tf, v: tf.scatter_update(v, [2, 0], [[1.0, 2.0], [3.0, 4.0]]))),
    Case("scatter_update/scalar", ("ScatterUpdate",),
         after_init(lambda tf, v: tf.scatter_update(v, [2, 0], 5.0))),
    Case("scatter_add", ("ScatterAdd",),
         after_init(lambda tf, v: tf.scatter_add(v, [1, 1], [[1.0, 2.0], [3.0, 4.0]]))),
    Case("scatter_sub", ("ScatterSub",),
         after_init(lambda tf, v: tf.scatter_sub(v, np.int64(1), [1.0, 2.0]))),
    # TensorFlow spells out boolean_mask for it.
    Case("report_uninitialized_variables", ("IsVariableInitialized",), reports, graph=False),
    # What TensorFlow returns for an assignment reads the variable again; ours is a tensor.
    Case("resource/assign", ("VarHandleOp", "AssignVariableOp", "ReadVariableOp"),
         lambda tf: tf.identity(resource(tf, [1.0, 2.0]).assign([2.0, 3.0])), graph=False),
    Case("resource/add", ("AssignAddVariableOp",),
         after_init(lambda tf, v: tf.identity(v.assign_add(RANDOM)), resource), graph=False),
    Case("resource/sub", ("AssignSubVariableOp",),
         after_init(lambda tf, v: tf.identity(v.assign_sub(RANDOM)), resource), graph=False),
    Case("resource/read", ("ReadVariableOp",), after_init(read_resource, resource)),
    Case("resource/initialized", ("VarIsInitializedOp",),
         lambda tf: tf.raw_ops.VarIsInitializedOp(resource=resource(tf, 1).handle)),
    Case("resource/initialized/yes", ("VarIsInitializedOp",), after_init(
         lambda tf, v: tf.raw_ops.VarIsInitializedOp(resource=v.handle), resource)),
    # Our rule does not know the shape behind a handle.
    Case("resource/gather", ("ResourceGather",), after_init(
         lambda tf, v: tf.reshape(gathered(tf, v), [2, 2]), resource)),
    Case("assign/bad shape", (), lambda tf: tf.assign(variable(tf, [1.0, 2.0]), [1.0]),
         fails="build", match="(2,) and (1,)"),
    Case("assign_add/bad rank", (), lambda tf: tf.assign_add(variable(tf, [1.0, 2.0]), 1.0),
         fails="build", match="(2,) and ()"),
    Case("assign/bad dtype", (), lambda tf: tf.assign(variable(tf, [1, 2]), [1.5, 2.0]),
         fails="build", match="int32"),
    Case("variable/no shape", (), lambda tf: variable(tf, tf.placeholder(tf.float32)),
         fails="build", match="must have a shape specified"),
    Case("variable/nothing", (), lambda tf: tf.Variable(), fails="build", match="initial_value"),
    Case("variable/collections", (), lambda tf: variable(tf, 1, collections="a"), fails="build",
         match="must be a list, tuple, or set"),
    Case("variable/uninitialized", (), lambda tf: variable(tf, 1, "weights") + 1, fails="run",
         match="Attempting to use uninitialized value weights"),
    Case("assign/bad fed shape", (), assigned_elsewhere, {"x:0": [3.0]}, fails="run",
         match="lhs shape= [2] rhs shape= [1]"),
    Case("scatter/bad index", (), after_init(lambda tf, v: tf.scatter_add(v, [5], [[1.0, 1.0]])),
         fails="run", match="indices[0] = 5 is not in [0, 3)"),
]  # fmt: skip


def made_by_name(tf):
    def get(name, shape=None, **keywords):
        return tf.get_variable(name, shape, use_resource=False, **keywords)

    with tf.variable_scope("a"):
        w = get("w", [2, 3])
        made = [
            get("zeros", [2], initializer=tf.zeros_initializer()),
            get("ones", [2], initializer=tf.ones_initializer, dtype=tf.int64),
            get("constant", [2], initializer=tf.constant_initializer(2.0)),
            get("value", initializer=tf.constant([1, 2])),
            get("int", [2], dtype=tf.int32),
            get("uniform", [2], initializer=tf.random_uniform_initializer(-1, 1, seed=3)),
            get("normal", [2], initializer=tf.random_normal_initializer()),
            get("truncated", [3, 4, 5], initializer=tf.truncated_normal_initializer(stddev=0.1)),
            get("scaled", [4, 5], initializer=tf.variance_scaling_initializer()),
            get("glorot", [4, 5], initializer=tf.glorot_normal_initializer()),
        ]
        with tf.variable_scope("b", initializer=tf.ones_initializer()):
            made.append(get("w", [2], trainable=False))
            tf.identity(made[-1], name="inside")
    with tf.variable_scope("a", reuse=True) as scope:
        again = get("w", [2, 3])
        assert again is w
        again_plus = again + 1.0
    for _ in range(2):
        with tf.variable_scope(None, "layer"):
            made.append(get("w", [2]))
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        made += [get("w"), get("new", [1])]
        tf.constant(1.0)
    return [again_plus, *[tf.identity(v) for v in made]]


def twice(tf):
    tf.get_variable("w", [2], use_resource=False)
    tf.get_variable("w", [2], use_resource=False)


def found(shape, name="w"):
    def build(tf):
        with tf.variable_scope("a"):
            tf.get_variable("w", [2], use_resource=False)
        with tf.variable_scope("a", reuse=True):
            tf.get_variable(name, shape, use_resource=False)

    return build


CASES += [
    Case("get_variable", ("VariableV2",), made_by_name, init=True, values=False),
    Case("get_variable/twice", (), twice, fails="build", match="Variable w already exists"),
    Case("get_variable/missing", (), found([2], "v"), fails="build", match="a/v does not exist"),
    Case("get_variable/shape", (), found([3]), fails="build",
         match="specified shape (3,) and found shape (2,)"),
    Case("get_variable/no shape", (), lambda tf: tf.get_variable("w", use_resource=False),
         fails="build", match="did not get an initializer, so its `shape` argument must be"),
]  # fmt: skip
