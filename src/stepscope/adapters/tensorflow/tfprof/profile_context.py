"""`tf.contrib.tfprof.ProfileContext` on TensorFlow, which has none any more in version 2.

TensorFlow's own profiler (`tf.compat.v1.profiler.Profiler`) is given the traced runs. Of that there
is one in a process, and so there is one such context at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stepscope.adapters.tensorflow import versions
from stepscope.analysis.model_profile import ProfileSteps
from stepscope.errors import FailedPreconditionError

__all__ = ["TensorFlowProfileContext"]

_one = threading.Lock()


class TensorFlowProfileContext(ProfileSteps):
    """Traces some of the session runs within it, profiles them and writes the profiles.

    A traced run has `FULL_TRACE`, also where the program asked for less; metadata that it gave are
    filled.

    >>> with TensorFlowProfileContext(enabled=False) as context:
    ...     context.profiler is None
    True
    """

    def new_profiler(self) -> Any:
        v1 = versions.tensorflow().compat.v1
        return v1.profiler.Profiler(v1.get_default_graph())

    @contextmanager
    def watching(self) -> Iterator[None]:
        if not _one.acquire(blocking=False):
            raise FailedPreconditionError.without_op(
                "another ProfileContext is active, and TensorFlow's profiler is one in a process; "
                "leave that one first"
            )
        try:
            session = versions.session_class()
            original = session.run
            session.run = self._watched(original)
            try:
                yield
            finally:
                session.run = original
        finally:
            _one.release()

    def _watched(self, original: Any) -> Any:
        v1 = versions.tensorflow().compat.v1

        def run(
            session: Any, fetches: Any, feed_dict: Any = None, options: Any = None,
            run_metadata: Any = None,
        ) -> Any:  # fmt: skip
            step = self.begins(lambda: _fetched(fetches))
            if step is not None and step.traced:
                asked = v1.RunOptions()
                asked.CopyFrom(options or asked)
                asked.trace_level = v1.RunOptions.FULL_TRACE
                options = asked
                run_metadata = v1.RunMetadata() if run_metadata is None else run_metadata
            results = original(session, fetches, feed_dict, options, run_metadata)
            if step is not None:
                self.ended(step, session.graph, run_metadata)
            return results

        return run


def _fetched(fetches: Any) -> str:
    """The names of what is fetched, whatever structure it is in."""
    flat = versions.tensorflow().nest.flatten(fetches)
    return "-".join(sorted(str(getattr(fetch, "name", fetch)) for fetch in flat))
