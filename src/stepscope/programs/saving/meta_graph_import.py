"""Meta graphs read from files, of TensorFlow's or of ours.

Variables, queue runners and savers come back as such, other collections as the graph elements they
name.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from stepscope._messages import Message, MetaGraphDef, QueueRunnerDef, SaverDef, VariableDef
from stepscope.graph import Graph, GraphKeys, get_default_graph, import_graph_def
from stepscope.ops.state.variable_collections import Variable
from stepscope.programs.queue_runner import QueueRunner
from stepscope.programs.saving.meta_graphs import VARIABLES
from stepscope.programs.saving.saver import Saver
from stepscope.programs.saving.saver_nodes import saveable_variables
from stepscope.programs.scoped_names import under_scope

_LEFT_OUT = frozenset({"cond_context", "while_context"})
"""Collections of things that only TensorFlow has."""


def import_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: str | None = None,
    **kwargs: Any,
) -> Saver | None:
    """Add a meta graph's nodes and collections to the default graph.

    `kwargs` go to `import_graph_def` (`input_map`). Returns the saver of the meta graph; where it
    has none, a new one of all variables, and None if there are no variables.
    """
    meta = read_meta_graph(meta_graph_or_file)
    graph = get_default_graph()
    if clear_devices:
        for node in meta.graph_def.node:
            node.device = ""
    scope = graph.unique_name(import_scope, mark_as_used=False) if import_scope else None
    import_graph_def(meta.graph_def, name=import_scope or "", **kwargs)
    variables: dict[str, Variable] = {}
    for key, collection in sorted(meta.collection_def.items()):
        for item in _items(graph, key, collection, scope, variables):
            graph.add_to_collection(key, item)
    if meta.HasField("saver_def"):
        return Saver(saver_def=meta.saver_def, name=scope)
    return Saver() if saveable_variables() else None


def read_meta_graph(source: Any) -> Any:
    """A MetaGraphDef from a message of any of the three kinds, or from a file, binary or text."""
    if isinstance(source, Message):
        if source.DESCRIPTOR.name != "MetaGraphDef":
            raise TypeError(f"expected a MetaGraphDef message, found {source.DESCRIPTOR.full_name}")
        return MetaGraphDef.FromString(source.SerializeToString())
    path = Path(os.fsdecode(source))
    if not path.exists():
        raise OSError(f"File {path} does not exist.")
    data = path.read_bytes()
    try:
        return MetaGraphDef.FromString(data)
    except Exception:  # noqa: BLE001 - then it is text, or neither
        pass
    try:
        return text_format.Parse(data.decode(), MetaGraphDef())
    except (UnicodeDecodeError, text_format.ParseError) as error:
        raise OSError(f"Cannot parse file {path}: {error}.") from None


def _items(
    graph: Graph, key: str, collection: Any, scope: str | None, variables: dict[str, Variable]
) -> list[Any]:
    if key in _LEFT_OUT:
        return []
    kind = collection.WhichOneof("kind")
    values = list(getattr(collection, kind).value) if kind else []
    if kind == "node_list":
        return [graph.as_graph_element(under_scope(name, scope)) for name in values]
    if kind == "bytes_list" and key in VARIABLES:
        found = [VariableDef.FromString(value) for value in values]
        return [_variable(graph, message, scope, variables) for message in found]
    if kind == "bytes_list" and key == GraphKeys.QUEUE_RUNNERS:
        return [QueueRunner.from_proto(QueueRunnerDef.FromString(v), scope) for v in values]
    if kind == "bytes_list" and key == GraphKeys.SAVERS:
        return [Saver.from_proto(SaverDef.FromString(v), scope) for v in values]
    # Messages of kinds we do not know are left out.
    return values if kind in ("bytes_list", "int64_list", "float_list") else []


def _variable(
    graph: Graph, message: Any, scope: str | None, known: dict[str, Variable]
) -> Variable:
    """The variable of a message; one variable of several collections is one object."""
    name = under_scope(message.variable_name, scope)
    if name not in known:
        known[name] = Variable._around(
            graph.get_tensor_by_name(name),
            graph.get_operation_by_name(under_scope(message.initializer_name, scope)),
            graph.get_tensor_by_name(under_scope(message.initial_value_name, scope)),
            graph.get_tensor_by_name(under_scope(message.snapshot_name, scope)),
            bool(message.trainable),
        )
    return known[name]
