"""`tf.summary.trace_on` and `trace_export` of a script, with step stats, which TensorFlow has not.

TensorFlow writes no more than the graphs of functions that were made while the trace was on. Here
the runs that were made meanwhile are recorded, whatever else is recorded of the script, and the
summary is of what they executed: a graph, and when each node of it ran. TensorBoard's Graphs page
colours it by compute time and memory. What TensorFlow would have written stands beside it, under
the tag with `AS_WRITTEN` behind it.

Of a function the last run counts. Where there are several functions, the nodes of each are in a
scope of its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from stepscope.adapters.tensorflow import versions

if TYPE_CHECKING:
    from stepscope.metadata import RunMetadata

__all__ = ["AS_WRITTEN", "SummaryTraces", "in_scope"]

AS_WRITTEN: Final = "as_written"
_MOST: Final = 50
"""So many functions are in a summary; the page shows no more than a few."""
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.>-]")
_OWN: Final = re.compile(r"(\^?)(.+)", re.DOTALL)


class SummaryTraces:
    """The runs of the trace that is on. One thread at a time makes traces, as with TensorFlow."""

    def __init__(self) -> None:
        self._module: Any = None
        self._trace: Any = None
        self._runs: dict[str, RunMetadata] = {}
        self._read: Callable[[], None] = lambda: None

    @property
    def on(self) -> bool:
        """Whether the script wants to be told of its runs now."""
        return self._module is not None and versions.summary_trace(self._module) is not None

    def take(self, name: str, metadata: RunMetadata) -> None:
        """A run that ended."""
        if not self.on:
            return
        self._begin()
        self._runs.pop(name, None)
        if len(self._runs) < _MOST:
            self._runs[name] = metadata

    def _begin(self) -> None:
        trace = versions.summary_trace(self._module)
        if trace is not self._trace:
            self._trace, self._runs = trace, {}

    def install(self, read: Callable[[], None]) -> None:
        """Have summaries written with what was recorded; `read` hands over runs that wait."""
        self._module, self._read = versions.summary_module(), read
        graphs, whole = self._module.run_metadata_graphs, self._module.run_metadata

        def written(native: Callable[..., Any], name: Any, data: Any, step: Any) -> Any:
            message = self._exported(type(data)) if self.on else None
            if message is None:
                return native(name, data, step)
            if data.ByteSize():
                native(f"{name}/{AS_WRITTEN}", data, step)
            return whole(name, message, step)

        def run_metadata_graphs(name: Any, data: Any, step: Any = None) -> Any:
            return written(graphs, name, data, step)

        def run_metadata(name: Any, data: Any, step: Any = None) -> Any:
            return written(whole, name, data, step)

        self._module.run_metadata_graphs = run_metadata_graphs
        self._module.run_metadata = run_metadata

    def _exported(self, kind: type[Any]) -> Any:
        """The runs of the trace as a message of that class; None where there are none."""
        # Few scripts come here, and all of them wait for what is imported above.
        from stepscope import _messages as pb
        from stepscope.export.tensorboard.executed_graph import graph_of, shown_run
        from stepscope.metadata.wire.labels import make_label, parse_label

        self._read()
        self._begin()
        runs, self._runs = self._runs, {}
        message = pb.RunMetadataMessage()
        executed = message.function_graphs.add().pre_optimization_graph
        for name, metadata in runs.items():
            shown = shown_run(metadata)
            scope = f"{_NOT_IN_NAMES.sub('_', name)}/" if len(runs) > 1 else ""
            for node in graph_of(shown.nodes).node:
                in_scope(node, scope)
                executed.node.add().CopyFrom(node)
            for device in shown.metadata.step_stats.dev_stats:
                for stats in device.node_stats:
                    op, inputs = parse_label(stats.node_name, stats.timeline_label)
                    stats.node_name = f"{scope}{stats.node_name}"
                    stats.timeline_label = make_label(
                        stats.node_name, op, [_moved(text, scope) for text in inputs]
                    )
                message.step_stats.dev_stats.add().CopyFrom(device)
        return (
            kind.FromString(message.SerializeToString()) if message.step_stats.dev_stats else None
        )


def in_scope(node: Any, scope: str) -> None:
    """Move a node, and what it points at, into a scope ("" or one that ends with a slash).

    >>> from tensorboard.compat.proto.node_def_pb2 import NodeDef
    >>> node = NodeDef(name="c", op="Add", input=["a:1", "^b"])
    >>> in_scope(node, "step/")
    >>> node.name, list(node.input)
    ('step/c', ['step/a:1', '^step/b'])
    """
    node.name = f"{scope}{node.name}"
    node.input[:] = [_moved(text, scope) for text in node.input]


def _moved(text: str, scope: str) -> str:
    return _OWN.sub(lambda match: f"{match[1]}{scope}{match[2]}", text)
