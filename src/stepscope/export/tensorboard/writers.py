"""Writers for TensorBoard: TensorFlow's `FileWriter`, and one that shows whole runs.

Both append to an event file of their own and share its guarantees (`event_file`): what was added
survives the end of the process, and threads may share a writer.
"""

from __future__ import annotations

import inspect
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

from stepscope._message_fields import same_name
from stepscope._messages import (
    Event,
    GraphDef,
    MetaGraphDef,
    SessionLog,
    Summary,
    TaggedRunMetadata,
)
from stepscope.analysis import named_runs
from stepscope.export.messages import describe, wire_bytes
from stepscope.export.tensorboard.event_file import EventFileWriter
from stepscope.export.tensorboard.executed_graph import graph_of, shown_run
from stepscope.export.tensorboard.metadata_summaries import field_values, metadata_text
from stepscope.export.tensorboard.summaries import run_summary

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from stepscope.metadata import RunMetadata


class FileWriter:
    """TensorFlow's `tf.compat.v1.summary.FileWriter`: graphs, tagged run metadata, summaries.

    Takes Stepscope's, TensorFlow's and TensorBoard's messages alike.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        """Open an event file in `logdir` and write `graph` (or `graph_def`) to it if one is given.

        `max_queue`, `flush_secs` and `session` are there because TensorFlow's writer has them. They
        say how its events wait before they are written; here none wait.
        """
        del max_queue, flush_secs, session
        self.event_writer = EventFileWriter(logdir, filename_suffix or "")
        self._run_tags: set[str] = set()
        self._described_tags: set[str] = set()
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)
            data = _graph_bytes(graph if graph is not None else graph_def)
            meta_graph = MetaGraphDef()
            meta_graph.graph_def.ParseFromString(data)
            self.add_meta_graph(meta_graph)

    def __enter__(self) -> Self:
        """The writer itself; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the writer."""
        self.close()

    def get_logdir(self) -> str:
        """The directory the event file is in."""
        return self.event_writer.get_logdir()

    def add_graph(self, graph: Any, global_step: int | None = None, graph_def: Any = None) -> None:
        """Add a graph: anything with `as_graph_def()`, or a `GraphDef` message."""
        self._add(Event(graph_def=_graph_bytes(_either(graph, graph_def))), global_step)

    def add_meta_graph(self, meta_graph_def: Any, global_step: int | None = None) -> None:
        """Add a `MetaGraphDef` message."""
        data = wire_bytes(meta_graph_def, "MetaGraphDef", "add_meta_graph")
        self._add(Event(meta_graph_def=data), global_step)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: int | None = None) -> None:
        """Add what a run left behind, under a tag of its own.

        Raises `ValueError` if the tag has been used with this writer before.
        """
        data = wire_bytes(run_metadata, "RunMetadata", "add_run_metadata")
        self._refuse_used(tag)
        tagged = TaggedRunMetadata(tag=tag, run_metadata=data)
        self._run_tags.add(tag)
        self._add(Event(tagged_run_metadata=tagged), global_step)

    def add_summary(self, summary: Any, global_step: int | None = None) -> None:
        """Add a `Summary` message, or the bytes of one.

        A value's metadata is written with the first value of its tag and left out after that; the
        message passed is not changed.
        """
        if not isinstance(summary, bytes):
            summary = wire_bytes(summary, "Summary", "add_summary")
        message = Summary.FromString(summary)
        for value in message.value:
            if value.tag in self._described_tags:
                value.ClearField("metadata")
            elif value.HasField("metadata"):
                self._described_tags.add(value.tag)
        self._add(Event(summary=message), global_step)

    def add_session_log(self, session_log: Any, global_step: int | None = None) -> None:
        """Add a `SessionLog` message."""
        data = wire_bytes(session_log, "SessionLog", "add_session_log")
        message = SessionLog.FromString(data)
        self._add(Event(session_log=message), global_step)

    def add_event(self, event: Any) -> None:
        """Add an `Event` message as it is."""
        self._warn_if_closed()
        self.event_writer.add_event(event)

    def flush(self) -> None:
        """Wait until everything added so far is on the disk."""
        self._warn_if_closed()
        self.event_writer.flush()

    def close(self) -> None:
        """Flush and close the file. Closing again does nothing."""
        self.event_writer.close()

    def reopen(self) -> None:
        """After `close`, go on in a new file. On an open writer this does nothing."""
        self.event_writer.reopen()

    def _refuse_used(self, tag: str) -> None:
        if tag in self._run_tags:
            raise ValueError("The provided tag was already used for this event type")

    def _add(self, event: Any, global_step: int | None) -> None:
        event.wall_time = time.time()
        if global_step is not None:
            event.step = int(global_step)
        self.add_event(event)

    def _warn_if_closed(self) -> None:
        if self.event_writer.closed:
            warnings.warn(
                "This FileWriter is closed: nothing is written. Call reopen() first.", stacklevel=4
            )


class TensorBoardWriter(FileWriter):
    """Runs for TensorBoard, from any engine: on its pages of graphs, scalars and texts.

    Everything `FileWriter` writes as it is, this does too. `add_run` adds what TensorBoard needs to
    show a run that has no graph of its own to show. Graphs and runs that several threads add go in
    one after the other.
    """

    def __init__(
        self, logdir: str | os.PathLike[str], graph: Any = None, filename_suffix: str = ""
    ) -> None:
        """Open an event file in `logdir` and write `graph` to it if one is given."""
        self._graph_lock = threading.RLock()
        self._nodes: dict[str, Any] = {}
        self._has_users_graph = False
        super().__init__(logdir, filename_suffix=filename_suffix)
        if graph is not None:
            self.add_graph(graph)

    def add_graph(self, graph: Any, global_step: int | None = None, graph_def: Any = None) -> None:
        """Add a graph: anything with `as_graph_def()`, or a `GraphDef` message.

        TensorBoard shows the last graph of a directory.
        """
        message = GraphDef.FromString(_graph_bytes(_either(graph, graph_def)))
        with self._graph_lock:
            super().add_graph(message, global_step)
            self._nodes = {node.name: node for node in message.node}
            self._has_users_graph = True

    def add_run(
        self, metadata: Any, step: int, *, tag: str | None = None, graph: Any = None
    ) -> None:
        """Show a run: coloured graph, times by op type and device, memory, and tables as text.

        The run metadata goes in under `tag` (`step_<step>` if none is given, which like any tag
        serves once) in the form that the Graphs page needs, see `executed_graph`;
        `add_run_metadata` writes it untouched. `graph` is what to show it on. Without one the run's
        nodes are looked up in the graph written before; if that is not the user's, or has none of
        them, they are added: those of the graphs that came with the run, else of what executed.
        """
        run = _one_run(metadata)
        tag = f"step_{step}" if tag is None else tag
        with self._graph_lock:
            self._refuse_used(tag)
            self._run_tags.add(tag)
            if graph is not None:
                self.add_graph(graph, step)
            shown = shown_run(run, self._nodes if self._has_users_graph else ())
            if not self._has_users_graph or shown.executed.isdisjoint(self._nodes):
                self._add_nodes(shown.nodes, step)
            data = shown.metadata.SerializeToString()
            tagged = TaggedRunMetadata(tag=tag, run_metadata=data)
            self._add(Event(tagged_run_metadata=tagged), step)
        self.add_summary(run_summary(run), step)

    def _add_nodes(self, nodes: Mapping[str, Any], step: int) -> None:
        missing = {name: node for name, node in nodes.items() if name not in self._nodes}
        if missing:
            self._nodes |= missing
            self._add(Event(graph_def=graph_of(self._nodes).SerializeToString()), step)

    def add_metadata_text(self, metadata: Any, tag: str = "run_metadata", step: int = 0) -> None:
        """Embed run metadata, all of it, as a text summary that people can read.

        `stepscope.export.metadata_from_text` gives the run back. The text of an op takes some
        kilobytes: for runs of many thousands `add_run_metadata` serves better.
        """
        self.add_summary(Summary(value=[metadata_text(_one_run(metadata), tag)]), step)

    def add_metadata_fields(self, metadata: Any, fields: Iterable[str], step: int = 0) -> None:
        """Extract single fields of run metadata into summaries of their own.

        A field is a path through the message ("overhead.fraction") or through the statistics of a
        node ("all_end_rel_micros", "memory.peak_bytes"). Numbers become scalars, anything else
        texts, tagged with the field and where the value was found:
        `all_end_rel_micros/<device>/<node>`. `ValueError` for a field that is not there, with
        those that are.
        """
        parts = field_values(_one_run(metadata), fields)
        if parts:
            self.add_summary(Summary(value=parts), step)


def _either(graph: Any, graph_def: Any) -> Any:
    if graph is not None and graph_def is not None:
        raise ValueError("add_graph takes graph or graph_def; both were passed")
    return graph if graph is not None else graph_def


def _one_run(metadata: Any) -> RunMetadata:
    ((_, run),) = named_runs([metadata])
    return run


def _graph_bytes(graph: Any) -> bytes:
    if same_name(graph, "GraphDef"):
        return wire_bytes(graph, "GraphDef", "add_graph")
    to_graph_def = getattr(graph, "as_graph_def", None)
    if to_graph_def is None or isinstance(graph, type):
        raise TypeError(
            "add_graph takes a graph (an object with as_graph_def()) or a GraphDef message, "
            f"not {describe(graph)}"
        )
    # TensorBoard labels edges with the shapes a graph adds when asked to.
    takes_shapes = "add_shapes" in inspect.signature(to_graph_def).parameters
    graph_def = to_graph_def(add_shapes=True) if takes_shapes else to_graph_def()
    return wire_bytes(graph_def, "GraphDef", "add_graph")
