"""`tf.contrib.tfprof.ProfileContext` on the embedded engine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from stepscope.analysis.model_profile import ProfileSteps
from stepscope.options import RunOptions
from stepscope.programs.profiler.model_analyzer import Profiler
from stepscope.runtime.observers import Observer, recording

if TYPE_CHECKING:
    from stepscope.graph import Graph
    from stepscope.metadata import RunMetadata

__all__ = ["ProfileContext"]


class ProfileContext(ProfileSteps):
    """Traces some of the runs within it, profiles them and writes the profiles to a directory.

    Runs are those of all sessions of the process, also where a high-level API hides them.

    >>> import tempfile
    >>> import stepscope.tf1 as tf
    >>> options = tf.profiler.ProfileOptionBuilder().with_empty_output().build()
    >>> session = tf.Session(graph=tf.Graph())
    >>> with tempfile.TemporaryDirectory() as folder, session, session.graph.as_default():
    ...     product = tf.multiply(tf.random_uniform([3]), 2.0)
    ...     with ProfileContext(folder, trace_steps=[], dump_steps=[]) as context:
    ...         context.trace_next_step()
    ...         _ = session.run(product)
    ...     context.profiler.profile_operations(options).total_exec_micros > 0
    True
    """

    def new_profiler(self) -> Profiler:
        return Profiler()

    def watching(self) -> AbstractContextManager[Any]:
        return recording(None, RunOptions.NO_TRACE, choose=self._chosen)

    def _chosen(self, what: str) -> Observer | None:
        step = self.begins(lambda: what)
        if step is None:
            return None
        seen: list[tuple[RunMetadata, Graph]] = []

        def ended(error: BaseException | None) -> None:
            if error is None:
                metadata, graph = seen[0] if seen else (None, None)
                self.ended(step, graph, metadata)

        if not step.traced:
            return Observer(None, RunOptions.NO_TRACE, ended=ended)
        return Observer(lambda *run: seen.append(run), RunOptions.FULL_TRACE, ended=ended)
