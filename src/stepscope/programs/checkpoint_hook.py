"""`CheckpointSaverHook`: checkpoints every so many steps or seconds of a monitored session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from stepscope._messages import SessionLog
from stepscope.graph import GraphKeys, get_default_graph
from stepscope.programs import log
from stepscope.programs.hooks import SecondOrStepTimer, step_for
from stepscope.programs.run_hooks import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from stepscope.programs.saving.meta_graphs import export_meta_graph, write_graph
from stepscope.programs.summary_writers import writer_for


class CheckpointSaverListener:
    """Something that is told when checkpoints are saved. Each method does nothing here."""

    def begin(self) -> None:
        """Called once, while the graph can still be changed."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Called before a checkpoint is saved."""

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        """Called after a checkpoint was saved; True ends the loop."""

    def end(self, session: Any, global_step_value: int) -> None:
        """Called when the loop ended without an error."""


class CheckpointSaverHook(SessionRunHook):
    """Saves a checkpoint at the beginning, when one is due, and at the end."""

    def __init__(
        self,
        checkpoint_dir: str | os.PathLike[str],
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
    ) -> None:
        """The saver is the one given, the scaffold's, or the only one of the graph's collection."""
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._directory = os.fspath(checkpoint_dir)
        self._path = os.path.join(self._directory, checkpoint_basename)  # noqa: PTH118
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._own_saver = saver
        self._scaffold = scaffold
        self._listeners = list(listeners or ())
        self._save_graph_def = save_graph_def

    def add_listener(self, listener: CheckpointSaverListener) -> None:
        """Tell one more of checkpoints; one that is told already is told once."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def begin(self) -> None:
        self._writer = writer_for(self._directory)
        self._step = step_for(self)
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:  # noqa: ARG002
        step = int(session.run(self._step))
        graph = get_default_graph()
        if self._save_graph_def:
            write_graph(graph.as_graph_def(add_shapes=True), self._directory, "graph.pbtxt")
        self._writer.add_graph(graph)
        self._writer.add_meta_graph(
            export_meta_graph(saver_def=self._saver().saver_def, collection_list=[])
        )
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:  # noqa: ARG002
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        stale = int(run_values.results)
        # A run may count more than one step: only the session knows.
        if not self._timer.should_trigger_for_step(stale + 1_000_000):
            return
        step = int(run_context.session.run(self._step))
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session: Any) -> None:
        step = int(session.run(self._step))
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)

    def _save(self, session: Any, step: int) -> bool:
        """Save, and tell the listeners; whether one of them wants the loop to end."""
        for listener in self._listeners:
            listener.before_save(session, step)
        log.info("Saving checkpoints for %d into %s.", step, self._path)
        self._saver().save(
            session, self._path, global_step=step, write_meta_graph=self._save_graph_def
        )
        self._writer.add_session_log(
            SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._path), step
        )
        wishes = [bool(listener.after_save(session, step)) for listener in self._listeners]
        return any(wishes)

    def _saver(self) -> Any:
        if self._own_saver is not None:
            return self._own_saver
        if self._scaffold is not None:
            return self._scaffold.saver
        found = get_default_graph().get_collection(GraphKeys.SAVERS)
        if len(found) != 1:
            have = "More than one item" if found else "No items"
            raise RuntimeError(
                f"{have} in collection {GraphKeys.SAVERS}. Please provide a saver or scaffold, or "
                "add one saver to the collection."
            )
        return found[0]
