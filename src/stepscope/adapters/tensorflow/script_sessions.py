"""One `Session.run` of a script, recorded: its own options and metadata are as without us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stepscope import options as opts
from stepscope.metadata import Recording


class SessionCall:
    """A call of TensorFlow's `Session.run`. Enter it, `call()`, leave it, ask for its recording."""

    def __init__(
        self,
        session: Any,
        graphs: dict[Any, Any],
        native: Callable[..., Any],
        fetches: Any,
        feed_dict: Any,
        options: Any,
        run_metadata: Any,
    ) -> None:
        """`graphs` keeps the session's executed graphs from one run to the next."""
        self._stepscope_nodes = graphs
        self._session = session
        self._native = native
        self._fetches = fetches
        self._feed_dict = feed_dict
        self._options = options
        self._run_metadata = run_metadata

    def observed(self, asked: opts.RunOptions, resolved: opts.ResolvedRunOptions) -> SessionCall:
        """Make it ready to be recorded."""
        from stepscope.adapters.tensorflow.session import _SessionRun

        # Hooks are keys of the fetches of a monitored session, and cannot be put in order.
        fetches = list(_leaves(self._fetches))
        self._run: Any = _SessionRun(self, fetches, self._feed_dict, asked, resolved)  # type: ignore[arg-type]
        return self

    @property
    def graph(self) -> Any:
        return self._session.graph

    @property
    def _capture(self) -> Any:
        return self._run._capture

    @_capture.setter
    def _capture(self, capture: Any) -> None:
        self._run._capture = capture

    def __enter__(self) -> None:
        self._capture.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._capture.__exit__(*exc)

    def call(self) -> Any:
        """Run it: with the script's options, or with ours where it has none and we need any."""
        options, run_metadata = self._options, self._run_metadata
        if options is None and run_metadata is None and self._capture.batch is not None:
            ours = self._run._native_options(self._capture)
            if ours.output_partition_graphs:
                options, run_metadata = ours, self._run._native
        return self._native(self._session, self._fetches, self._feed_dict, options, run_metadata)

    def recording(self) -> Recording:
        """The run as it ended."""
        recording: Recording = self._run.recording(None)
        return recording


def _leaves(fetches: Any) -> Iterator[Any]:
    if isinstance(fetches, dict):
        fetches = fetches.values()
    elif not isinstance(fetches, (list, tuple)):
        yield fetches
        return
    for part in fetches:
        yield from _leaves(part)
