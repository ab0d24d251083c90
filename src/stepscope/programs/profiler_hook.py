"""`ProfilerHook`: every so often a step of a loop is traced, for Chrome and TensorBoard."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stepscope.export import Timeline
from stepscope.options import RunOptions
from stepscope.programs import log
from stepscope.programs.hooks import SecondOrStepTimer, step_for
from stepscope.programs.run_hooks import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from stepscope.programs.summary_writers import writer_for
from stepscope.whole_files import write_whole


class ProfilerHook(SessionRunHook):
    """Writes `timeline-<step>.json`, and the step's metadata to the directory's event file.

    The step is the global step after the run that was traced. The first is traced once
    `save_steps` steps or `save_secs` seconds have passed.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | os.PathLike[str] = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._directory = Path(output_dir)
        self._writer = writer_for(output_dir)
        self._show_dataflow = show_dataflow
        self._show_memory = show_memory

    def begin(self) -> None:
        self._next_step: int | None = None
        self._step = step_for(self)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:  # noqa: ARG002
        self._due = self._next_step is not None and self._timer.should_trigger_for_step(
            self._next_step
        )
        options = RunOptions(trace_level=RunOptions.FULL_TRACE) if self._due else None
        return SessionRunArgs({"global_step": self._step}, options=options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        stale = int(run_values.results["global_step"])
        if self._next_step is None:
            self._timer.update_last_triggered_step(stale)
        step = stale + 1
        if self._due:
            step = int(run_context.session.run(self._step))
            self._timer.update_last_triggered_step(step)
            self._save(step, run_values.run_metadata)
        self._next_step = step + 1

    def _save(self, step: int, metadata: Any) -> None:
        path = self._directory / f"timeline-{step}.json"
        log.info("Saving timeline for %d into '%s'.", step, path)
        trace = Timeline(metadata).generate_chrome_trace_format(
            show_dataflow=self._show_dataflow, show_memory=self._show_memory
        )
        write_whole(path, [trace.encode()])
        self._writer.add_run_metadata(metadata, f"step_{step}")
