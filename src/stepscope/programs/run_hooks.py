"""What a hook of a monitored session is given, and may answer."""

from __future__ import annotations

from typing import Any, NamedTuple


class SessionRunArgs(NamedTuple):
    """What a hook adds to a run: more fetches, feeds, and options."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """What a hook gets after a run: its own fetches' values, and how the run was made."""

    results: Any
    options: Any
    run_metadata: Any


class SessionRunContext:
    """One call of `run`, and the way to say that it shall be the last."""

    def __init__(self, original_args: SessionRunArgs, session: Any) -> None:
        self._original_args = original_args
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self) -> SessionRunArgs:
        """What the caller of `run` asked for."""
        return self._original_args

    @property
    def session(self) -> Any:
        """The session itself, for runs of a hook's own."""
        return self._session

    @property
    def stop_requested(self) -> bool:
        return self._stop_requested

    def request_stop(self) -> None:
        """Have the loop end: `should_stop()` is true after this run."""
        self._stop_requested = True


class SessionRunHook:
    """Something that is told of a monitored session's runs. Each method does nothing here."""

    def begin(self) -> None:
        """Called once, while the graph can still be changed."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Called with a session whose variables are initialised."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:  # noqa: ARG002
        """Called before each run; may ask for more from it."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each run that succeeded."""

    def end(self, session: Any) -> None:
        """Called when the loop ended without an error."""
