"""Many runs, steps and workers as one trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from stepscope.analysis.cluster.workers import WorkerRuns
from stepscope.analysis.runs import NamedRun
from stepscope.export.chrome.run_sources import RunTime, Source, sources_of
from stepscope.export.chrome.trace import write_trace
from stepscope.metadata import is_run_metadata

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from stepscope.analysis.cluster.clock import Clocks
    from stepscope.analysis.cluster.workers import Worker
    from stepscope.metadata import RunMetadata


def merge(
    runs: Any,
    path: str | os.PathLike[str],
    *,
    max_bytes: int | None = None,
    show_memory: bool = True,
    show_dataflow: bool = True,
    clocks: Clocks | None = None,
) -> Path:
    """Write the runs of one or more workers as one Chrome trace to `path`, and return the path.

    `runs` and the options are those of `stepscope.export.chrome`: runs, or files and directories
    of them (Chrome traces among them), which are read one at a time. A mapping is of workers:
    `{"worker 0": "logs/0", "worker 1": [first, second]}`. The devices of each are processes of
    their own, under the worker's name, so that equal names of devices do not meet. So are those of
    a `stepscope.analysis.WorkerRuns`, which knows its tasks; if it has been gone over, as for its
    clocks, every run is read once more and that is all.

    Everything stands at its wall-clock time, as the clock of its machine had it; with `clocks`
    (of `stepscope.analysis.clocks`) by the clock of the first task, and `otherData["clocks"]` says
    by how much each was moved. A worker's runs are those of the task of its name where devices do
    not say the task. No two runs share a lane where they would cross, and processes, lanes and
    arrows are numbered for the whole trace.
    """
    sources: list[Source] = []
    if isinstance(runs, WorkerRuns):
        sources = [_of_worker(runs, worker, task, clocks) for task, worker in runs.named()]
    elif isinstance(runs, Mapping):
        for worker, of_worker in runs.items():
            named = [("run 0", of_worker)] if is_run_metadata(of_worker) else of_worker
            sources += sources_of(named, str(worker))
    else:
        sources = sources_of(runs)
    if clocks is not None and not isinstance(runs, WorkerRuns):
        sources = [_by_one_clock(source, clocks) for source in sources]
    told = {} if clocks is None else {"clocks": clocks.to_dict()}
    written = write_trace(
        sources,
        path,
        max_bytes=max_bytes,
        show_memory=show_memory,
        show_dataflow=show_dataflow,
        told=told,
    )
    assert not isinstance(written, str)
    return written


def _of_worker(runs: WorkerRuns, worker: Worker, name: str, clocks: Clocks | None) -> Source:
    """The runs of a worker, of which it is known when they were."""
    known = runs.times(worker)
    start, end = known.spans(None if clocks is None else clocks.retiming(name))
    columns = (known.names, start.tolist(), end.tolist(), known.rows.tolist())
    times = [RunTime(*run) for run in zip(*columns, strict=True)]

    def corrected(metadata: RunMetadata) -> RunMetadata:
        return metadata if clocks is None else clocks.correct(metadata, name)

    def opened() -> Iterator[NamedRun]:
        return (NamedRun(run.name, corrected(run.metadata)) for run in worker.runs())

    def read(index: int) -> RunMetadata:
        return worker.read(known.names[index]).metadata

    apart = read if worker.run_names() else None
    return Source(opened, name, times=times, read=apart, changed=corrected)


def _by_one_clock(source: Source, clocks: Clocks) -> Source:
    def corrected(runs: Iterable[NamedRun]) -> Iterator[NamedRun]:
        for run in runs:
            yield NamedRun(run.name, clocks.correct(run.metadata, source.worker))

    held = None if source.held is None else list(corrected(source.held))
    return Source(lambda: corrected(source.open()), source.worker, held)
