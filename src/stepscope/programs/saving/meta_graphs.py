"""Graphs in files: `write_graph`, and meta graphs, which hold a graph's collections too.

A meta graph written here can be read by TensorFlow; `meta_graph_import` reads those of both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from stepscope._messages import (
    CollectionDef,
    GraphDef,
    MetaGraphDef,
    VariableDef,
)
from stepscope.graph import Graph, GraphKeys, get_default_graph
from stepscope.ops.state.variable_collections import Variable
from stepscope.programs import log
from stepscope.programs.scoped_names import in_scope, without_scope
from stepscope.whole_files import write_whole

VARIABLES = frozenset(
    {
        GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES,
        GraphKeys.MODEL_VARIABLES, GraphKeys.MOVING_AVERAGE_VARIABLES, GraphKeys.GLOBAL_STEP,
    }
)  # fmt: skip
"""Collections of variables."""

_MESSAGES = frozenset({GraphKeys.QUEUE_RUNNERS, GraphKeys.SAVERS})
"""Collections of what has a message of its own."""

AnyPath = str | os.PathLike[str]


def write_graph(graph_or_graph_def: Any, logdir: AnyPath, name: str, as_text: bool = True) -> str:
    """Write a graph's GraphDef to a file of a directory, which is made; returns its path."""
    message = graph_or_graph_def
    if isinstance(message, Graph):
        message = message.as_graph_def()
    path = Path(logdir) / name
    _write(path, message, as_text)
    return str(path)


def _write(path: AnyPath, message: Any, as_text: bool) -> None:
    data = text_format.MessageToString(message).encode() if as_text else None
    write_whole(path, [message.SerializeToString(deterministic=True) if data is None else data])


# -- out ---------------------------------------------------------------------------------------


def export_meta_graph(
    filename: AnyPath | None = None,
    meta_info_def: Any = None,
    graph_def: Any = None,
    saver_def: Any = None,
    collection_list: Iterable[str] | None = None,
    as_text: bool = False,
    graph: Graph | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,  # noqa: ARG001 - all savers stay
    strip_default_attrs: bool = False,  # noqa: ARG001 - attributes are never left out
    save_debug_info: bool = False,  # noqa: ARG001 - nothing reads it
    **_unused: Any,
) -> Any:
    """The MetaGraphDef of a graph: its nodes and collections; also in a file, if one is named.

    With `export_scope` what is in that name scope, with names relative to it.
    """
    graph = graph or get_default_graph()
    meta = MetaGraphDef()
    if meta_info_def is not None:
        meta.meta_info_def.ParseFromString(meta_info_def.SerializeToString())
    meta.meta_info_def.tensorflow_version = "1.15.0"
    source = graph.as_graph_def(add_shapes=True) if graph_def is None else graph_def
    meta.graph_def.ParseFromString(source.SerializeToString())
    if export_scope:
        _keep_scope(meta.graph_def, export_scope)
    if clear_devices:
        for node in meta.graph_def.node:
            node.device = ""
    if saver_def is not None:
        meta.saver_def.ParseFromString(saver_def.SerializeToString())
    keys = graph.get_all_collection_keys() if collection_list is None else collection_list
    for key in keys:
        found = _collection_def(key, graph.get_collection(key), export_scope)
        if found is not None:
            meta.collection_def[key].CopyFrom(found)
    if filename is not None:
        _write(filename, meta, as_text)
    return meta


def _keep_scope(graph_def: Any, scope: str) -> None:
    """Leave the nodes of a scope, with names relative to it."""
    kept = [node for node in graph_def.node if in_scope(node.name, scope)]
    result = GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in kept:
        outside = [n for n in node.input if not in_scope(n.lstrip("^"), scope)]
        if any(not n.startswith("^") for n in outside):
            raise ValueError(
                f"export_scope={scope!r}: node {node.name!r} has the input {outside[0]!r}, which "
                "is not in that scope."
            )
        copy = result.node.add()
        copy.CopyFrom(node)
        copy.name = without_scope(node.name, scope)
        del copy.input[:]
        copy.input.extend(without_scope(n, scope) for n in node.input if n not in outside)
        if "_class" in copy.attr:
            groups = [without_scope(g.decode(), scope) for g in node.attr["_class"].list.s]
            copy.attr["_class"].list.s[:] = [g.encode() for g in groups]
    graph_def.CopyFrom(result)


def _collection_def(key: str, items: list[Any], scope: str | None) -> Any:
    """A collection as a message; None where there is nothing to write of it."""
    result = CollectionDef()
    if key in VARIABLES:
        made = [_variable_def(v, scope) for v in items if isinstance(v, Variable)]
        result.bytes_list.value.extend(m.SerializeToString() for m in made if m is not None)
    elif key in _MESSAGES:
        messages = [item.to_proto(export_scope=scope) for item in items]
        result.bytes_list.value.extend(m.SerializeToString() for m in messages if m is not None)
    elif all(hasattr(item, "name") and hasattr(item, "graph") for item in items):
        names = [item.name for item in items if in_scope(item.name, scope)]
        result.node_list.value.extend(without_scope(name, scope) for name in names)
    elif all(isinstance(item, (bytes, str)) for item in items):
        encoded = [i.encode() if isinstance(i, str) else i for i in items]
        result.bytes_list.value.extend(encoded)
    elif all(isinstance(item, int) for item in items):
        result.int64_list.value.extend(items)
    elif all(isinstance(item, float) for item in items):
        result.float_list.value.extend(items)
    else:
        kinds = ", ".join(sorted({type(item).__name__ for item in items}))
        log.warning("The collection %r is not in the meta graph: it holds %s.", key, kinds)
        return None
    kind = result.WhichOneof("kind")
    return result if kind is not None and getattr(result, kind).value else None


def _variable_def(variable: Variable, scope: str | None) -> Any:
    if not in_scope(variable.name, scope):
        return None
    return VariableDef(
        variable_name=without_scope(variable.name, scope),
        initial_value_name=without_scope(variable.initial_value.name, scope),
        initializer_name=without_scope(variable.initializer.name, scope),
        snapshot_name=without_scope(variable._snapshot.name, scope),
        is_resource=variable._is_resource,
        trainable=variable.trainable,
    )
