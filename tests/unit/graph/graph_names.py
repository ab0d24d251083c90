"""Our graph-building names as TensorFlow calls them, so that one program runs on both."""

from types import SimpleNamespace

import stepscope.graph as g
from stepscope.graph import dtypes
from stepscope.ops.arrays import constants, conversion, joining, shaping
from stepscope.ops.math import elementwise, matmul

OURS = SimpleNamespace(
    Graph=g.Graph,
    GraphKeys=g.GraphKeys,
    TensorShape=g.TensorShape,
    Dimension=g.Dimension,
    DeviceSpec=g.DeviceSpec,
    name_scope=g.name_scope,
    device=g.device,
    control_dependencies=g.control_dependencies,
    colocate_with=g.colocate_with,
    add_to_collection=g.add_to_collection,
    get_collection=g.get_collection,
    get_collection_ref=g.get_collection_ref,
    convert_to_tensor=g.convert_to_tensor,
    get_default_graph=g.get_default_graph,
    reset_default_graph=g.reset_default_graph,
    import_graph_def=g.import_graph_def,
    constant=constants.constant,
    placeholder=constants.placeholder,
    range=constants.range,
    identity=conversion.identity,
    add=elementwise.add,
    matmul=matmul.matmul,
    reshape=shaping.reshape,
    shape=shaping.shape,
    concat=joining.concat,
    split=joining.split,
    unstack=joining.unstack,
    float32=dtypes.float32,
    float64=dtypes.float64,
    int32=dtypes.int32,
    int64=dtypes.int64,
)


def on_both(tf, program):
    """What `program(tf)` returns inside a fresh graph: here, and on TensorFlow."""
    results = []
    for names in (OURS, tf.compat.v1):
        with names.Graph().as_default():
            results.append(program(names))
    return results


def nodes(graph_def):
    """A GraphDef as plain values to compare: name to (op, inputs, device)."""
    return {n.name: (n.op, list(n.input), n.device) for n in graph_def.node}
