"""Names, devices, control dependencies and colocation: programs run on TensorFlow and here."""

import pytest
from graph_names import OURS, nodes, on_both


def c(tf, name="c"):
    return tf.constant(1.0, name=name)


def unique_names(tf):
    return [c(tf, name).name for name in ("a", "a", "a_1", "a", "A", "b/a", "b", "b", "a_1", "b/a")]


def nested_scopes(tf):
    found = []
    with tf.name_scope("outer") as outer:
        found += [outer, c(tf).name]
        with tf.name_scope("inner") as inner:
            found += [inner, c(tf).name, c(tf).name]
        with tf.name_scope("inner") as again:
            found += [again, c(tf).name]
        with tf.name_scope(None):
            found += [c(tf).name]
        with tf.name_scope("Inner") as other_case:
            found += [other_case, c(tf, "C").name]
    with tf.name_scope("outer") as second:
        found += [second, c(tf).name]
    return found


def reentered_scope(tf):
    found = []
    with tf.name_scope("s") as s:
        found.append(c(tf).name)
    with tf.name_scope("t"), tf.name_scope(s) as again:
        found += [again, c(tf).name]
        with tf.name_scope("deeper"):
            found.append(c(tf).name)
    with tf.name_scope("s/"):
        found.append(c(tf, "fresh").name)
    with tf.name_scope(s):
        found.append(tf.constant(2.0, name=s).name)
    return found


def scope_and_op_share_names(tf):
    found = [c(tf, "x").name]
    with tf.name_scope("x"):
        found.append(c(tf, "y").name)
    found.append(c(tf, "x/y").name)
    with tf.name_scope("x/y"):
        found.append(c(tf).name)
    return found


def default_and_given_names(tf):
    found = []
    for name, default in (("n", "d"), (None, "d"), (None, "d")):
        with tf.name_scope(name, default, []) as scope:
            found.append(scope)
    graph = tf.get_default_graph()
    found.append(graph.unique_name("d", mark_as_used=False))
    found.append(graph.unique_name("d"))
    found.append(graph.unique_name("d"))
    with graph.name_scope("q"):
        found.append(graph.get_name_scope())
        found.append(graph.unique_name("z"))
    return found


def implicit_constants(tf):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = x + 1.0
    with tf.name_scope("loss"):
        z = (2.0 * y) - x
    return [op.name for op in tf.get_default_graph().get_operations()] + [z.name]


NAMES = [
    unique_names,
    nested_scopes,
    reentered_scope,
    scope_and_op_share_names,
    default_and_given_names,
    implicit_constants,
]


@pytest.mark.parametrize("program", NAMES, ids=lambda p: p.__name__)
def test_names(tf, program):
    ours, theirs = on_both(tf, program)
    assert ours == theirs


@pytest.mark.parametrize("name", ["_hidden", "has space", "-x", "a:b", "ä"])
def test_invalid_names_are_refused(tf, name):
    for names in (OURS, tf.compat.v1):
        with names.Graph().as_default(), pytest.raises(ValueError, match="not a valid"):
            names.constant(1.0, name=name)


@pytest.mark.parametrize("name", ["_hidden", "x"])
def test_names_with_underscores_are_fine_inside_a_scope(tf, name):
    def program(tf):
        with tf.name_scope("s"):
            return tf.constant(1.0, name=name).name

    ours, theirs = on_both(tf, program)
    assert ours == theirs == f"s/{name}:0"


def device_merging(tf):
    found = []

    def here(name="c"):
        found.append(c(tf, name).device)

    here()
    with tf.device("/cpu:1"):
        here()
        with tf.device("/job:worker"):
            here()
            with tf.device("/device:GPU:0"):
                here()
                with tf.device(None):
                    here()
                    with tf.device("/task:3"):
                        here()
            with tf.device("/job:ps/task:2"):
                here()
    with tf.device("/job:worker/replica:0/task:1"), tf.device("/device:CPU:*"):
        here()
    with tf.device(""):
        here()
    return found


def device_functions(tf):
    found = []

    def to_ps(op):
        return "/job:ps" if op.type == "Const" else "/job:worker"

    with tf.device(to_ps):
        a = c(tf)
        found += [a.device, tf.identity(a).device]
        with tf.device("/cpu:0"):
            found += [c(tf).device]
    with tf.device("/task:7"), tf.device(to_ps):
        found += [c(tf).device]
    with tf.device("/job:chief/cpu:2"), tf.device(to_ps):
        found += [c(tf).device]
    with tf.device(to_ps), tf.device("/job:chief"):
        found += [c(tf).device]
    with tf.device("/cpu:5"), tf.device(lambda op: ""):
        found += [c(tf).device]
    return found


def device_spec(tf):
    with tf.device(tf.DeviceSpec(job="ps", device_type="CPU", device_index=0)):
        return [c(tf).device]


@pytest.mark.parametrize("program", [device_merging, device_functions, device_spec],
                         ids=lambda p: p.__name__)  # fmt: skip
def test_devices(tf, program):
    ours, theirs = on_both(tf, program)
    assert ours == theirs


def test_a_bad_device_name_is_said():
    with (
        OURS.Graph().as_default(),
        pytest.raises(ValueError, match=r"widget:3.*/device:CPU:0"),
        OURS.device("/widget:3"),
    ):
        c(OURS)


def inputs_of(tf):
    return {n.name: list(n.input) for n in tf.get_default_graph().as_graph_def().node}


def control_plain(tf):
    a, b = c(tf, "a"), c(tf, "b")
    with tf.control_dependencies([a, b.op, a]):
        x = c(tf, "x")
        tf.identity(x, name="follows_x")
        tf.identity(a, name="uses_a")
    c(tf, "outside")
    return inputs_of(tf)


def control_nested(tf):
    a, b = c(tf, "a"), c(tf, "b")
    with tf.control_dependencies([a]):
        x = c(tf, "x")
        with tf.control_dependencies([b]):
            c(tf, "both")
            tf.identity(x, name="uses_x")
            with tf.control_dependencies(None):
                c(tf, "none")
                with tf.control_dependencies([x]):
                    c(tf, "only_x")
            c(tf, "both_again")
        c(tf, "one")
    return inputs_of(tf)


def control_empty(tf):
    with tf.control_dependencies([]):
        c(tf, "x")
    return inputs_of(tf)


def control_none_leaves_names(tf):
    with tf.name_scope("s"), tf.control_dependencies(None):
        c(tf, "x")
    return inputs_of(tf)


@pytest.mark.parametrize(
    "program",
    [control_plain, control_nested, control_empty, control_none_leaves_names],
    ids=lambda p: p.__name__,
)
def test_control_dependencies(tf, program):
    ours, theirs = on_both(tf, program)
    assert ours == theirs


def test_control_dependencies_of_another_graph_are_refused(tf):
    for names in (OURS, tf.compat.v1):
        with names.Graph().as_default():
            other = c(names)
        with (
            names.Graph().as_default(),
            pytest.raises(ValueError, match="not an element of this"),
            names.control_dependencies([other]),
        ):
            pass


def colocation(tf):
    with tf.device("/job:ps/cpu:0"):
        a = c(tf, "a")
    with tf.device("/cpu:1"):
        b = c(tf, "b")
    with tf.colocate_with(a):
        x = c(tf, "x")
        with tf.colocate_with(b):
            y = c(tf, "y")
        with tf.colocate_with(b, ignore_existing=True):
            z = c(tf, "z")
    with tf.colocate_with(x):
        w = c(tf, "w")
    return [
        (op.device, op.get_attr("_class"), op.colocation_groups())
        for op in (x.op, y.op, z.op, w.op)
    ]


def test_colocation(tf):
    from tensorflow.python.framework import ops

    with OURS.Graph().as_default():
        ours = colocation(OURS)
    with tf.Graph().as_default() as graph, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.compat.v1, "colocate_with", graph.colocate_with, raising=False)
        patch.setattr(ops, "colocate_with", graph.colocate_with, raising=False)
        theirs = colocation(tf.compat.v1)
    assert ours == theirs


def collections(tf):
    graph = tf.get_default_graph()
    a, b = c(tf, "net/a"), c(tf, "head/b")
    tf.add_to_collection("k", a)
    graph.add_to_collections(["k", "other"], b)
    graph.add_to_collection("k", 7)
    copy = tf.get_collection("k")
    copy.clear()
    tf.get_collection_ref("later").append(1)
    found = [
        [getattr(x, "name", x) for x in tf.get_collection("k")],
        [x.name for x in tf.get_collection("k", scope="net")],
        [x.name for x in tf.get_collection("k", scope="a")],
        tf.get_collection("later"),
        tf.get_collection("never"),
        sorted(graph.get_all_collection_keys()),
        tf.GraphKeys.GLOBAL_VARIABLES,
        tf.GraphKeys.TRAINABLE_VARIABLES,
        tf.GraphKeys.UPDATE_OPS,
    ]
    graph.clear_collection("k")
    return [*found, tf.get_collection("k")]


def test_collections(tf):
    ours, theirs = on_both(tf, collections)
    assert ours == theirs


def test_scopes_belong_to_the_thread_that_entered_them():
    import threading

    found = []
    with OURS.Graph().as_default() as graph:
        first = c(OURS, "first")

        def elsewhere():
            with graph.as_default():
                found.append(c(OURS, "x"))

        with OURS.name_scope("s"), OURS.device("/cpu:3"), OURS.control_dependencies([first]):
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
    assert nodes(graph.as_graph_def())["x"] == ("Const", [], "")
    assert found[0].graph is graph


def test_graphs_are_built_from_many_threads_without_losing_a_node():
    from concurrent.futures import ThreadPoolExecutor

    graph = OURS.Graph()

    def build(i):
        with graph.as_default(), OURS.name_scope("s"):
            return [(c(OURS, "x") + 1.0).name for _ in range(50)]

    with ThreadPoolExecutor(8) as pool:
        names = [n for part in pool.map(build, range(8)) for n in part]
    assert len(set(names)) == 400
    assert len(graph.get_operations()) == 1200
