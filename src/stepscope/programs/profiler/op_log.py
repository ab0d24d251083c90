"""What a graph says of its ops that its nodes do not: an `OpLogProto`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stepscope.analysis.model_profile import TRAINABLE, ModelProfile, shapes_of_runs
from stepscope.graph import Graph, GraphKeys, get_default_graph
from stepscope.metadata.wire.profile_messages import OpLogProto
from stepscope.whole_files import whole_file

__all__ = ["graph_def_of", "merge_default_with_oplog", "write_op_log"]


def graph_def_of(graph: Any) -> Any:
    """The nodes of a graph with the shapes it knows.

    `graph` is a `Graph`, a `GraphDef` (with `_output_shapes`, as `as_graph_def(add_shapes=True)`
    writes them) or a `MetaGraphDef`.
    """
    if hasattr(graph, "as_graph_def"):
        return graph.as_graph_def(add_shapes=True)
    found = graph.graph_def if hasattr(graph, "graph_def") else graph
    if not hasattr(found, "node"):
        raise TypeError(
            "graph must be a Graph, a GraphDef or a MetaGraphDef; found "
            f"{type(graph).__module__}.{type(graph).__qualname__}"
        )
    return found


def merge_default_with_oplog(
    graph: Any,
    op_log: Any = None,
    run_meta: Any = None,
    add_trace: bool = True,
    add_trainable_var: bool = True,
) -> Any:
    """An op log with what is known of a graph's ops, added to what the caller says of them.

    That is: floating-point operations, where each op was made (`add_trace`), and which variables
    are trained. What `op_log` says goes before; it is not changed.
    """
    graph = get_default_graph() if graph is None else graph
    nodes = graph_def_of(graph)
    merged = OpLogProto()
    if op_log is not None:
        merged.ParseFromString(op_log.SerializeToString())
    entries = {entry.name: entry for entry in merged.log_entries}

    def entry_of(name: str) -> Any:
        if name not in entries:
            entries[name] = merged.log_entries.add(name=name)
        return entries[name]

    counts = ModelProfile()
    counts.add_graph(nodes)
    counts.add_float_ops(nodes, None if run_meta is None else shapes_of_runs(run_meta))
    for name, node in counts.nodes.items():
        if node.float_ops and (name not in entries or not entries[name].float_ops):
            entry_of(name).float_ops = node.float_ops
    if add_trace and hasattr(graph, "get_operations"):
        texts = _Texts(merged)
        for op in graph.get_operations():
            if op.name not in entries or not entries[op.name].code_def.traces:
                _add_trace(entry_of(op.name), op, texts)
    if add_trainable_var:
        for name in _trainable(graph):
            entry_of(name).types.append(TRAINABLE)
    return merged


class _Texts:
    """Texts of an op log, each kept once, by number."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._numbers: dict[str, int] = {text: n for n, text in log.id_to_string.items()}
        self.number("none")

    def number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = max(self._numbers.values(), default=-1) + 1
            self._log.id_to_string[self._numbers[text]] = text
        return self._numbers[text]


def _add_trace(entry: Any, op: Any, texts: _Texts) -> None:
    for frame in op.traceback:
        file, line, function = frame[:3]
        entry.code_def.traces.add(
            file_id=texts.number(file), lineno=line or -1, function_id=texts.number(function),
            func_start_line=-1,
        )  # fmt: skip


def _trainable(graph: Any) -> list[str]:
    """The names of the ops of variables that are trained."""
    key = GraphKeys.TRAINABLE_VARIABLES
    if isinstance(graph, Graph) or hasattr(graph, "get_collection"):
        return [variable.op.name for variable in graph.get_collection(key)]
    if not hasattr(graph, "collection_def") or key not in graph.collection_def:
        return []
    from stepscope._messages import VariableDef

    kept = graph.collection_def[key].bytes_list.value
    names = [VariableDef.FromString(each).variable_name for each in kept]
    return [name.rpartition(":")[0] or name for name in names]


def write_op_log(
    graph: Any,
    log_dir: str | os.PathLike[str],
    op_log: Any = None,
    run_meta: Any = None,
    add_trace: bool = True,
) -> None:
    """Write `tfprof_log` into a directory: what `merge_default_with_oplog` makes."""
    merged = merge_default_with_oplog(graph, op_log, run_meta, add_trace)
    with whole_file(Path(log_dir) / "tfprof_log") as file:
        file.write(merged.SerializeToString())
