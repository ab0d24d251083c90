"""The runs of a TensorBoard: those of event files through its data provider, and stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorboard.errors import PublicError

from stepscope.errors import UnreadableFileError
from stepscope.metadata import LoadedRun, RunMetadata, iter_runs
from stepscope.metadata.readable import writable
from stepscope.metadata.readers import unread
from stepscope.web.plugin import DATA, stores_below
from stepscope.web.run_sources import SourcedRun

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

__all__ = ["LogdirSource"]


class LogdirSource:
    """Runs of event files first, by run and tag, then those of stores."""

    def __init__(self, provider: Any, context: Any, experiment: str, logdir: Path | None) -> None:
        self._provider = provider
        self._context = context
        self._experiment = experiment
        self._logdir = logdir
        self.paths: tuple[Path, ...] = (logdir,) if logdir is not None else ()
        self.labels: tuple[str, ...] = (writable(str(logdir)) if logdir is not None else "runs",)

    def _tags(self) -> list[tuple[str, str, str, Any]]:
        """The kind, run and tag of each blob that is a recorded run, with when it was written."""
        found = []
        for kind in DATA:
            runs = self._provider.list_blob_sequences(
                self._context, experiment_id=self._experiment, plugin_name=kind
            )
            for run, tags in runs.items():
                found += [(kind, run, tag, series.max_wall_time) for tag, series in tags.items()]
        return sorted(found, key=lambda item: (item[3] or 0, item[1], item[2], item[0]))

    def each(self) -> Iterator[SourcedRun]:
        """All runs, one at a time."""
        found = False
        for kind, run, tag, _ in self._tags():
            name = writable("/".join(part for part in (run, tag) if part not in ("", ".")))
            try:
                for content in self._blobs(kind, run, tag):
                    metadata = RunMetadata.FromString(content)
                    if not len(metadata.ops):
                        continue  # a graph alone, as Keras' callback writes it
                    found = True
                    yield SourcedRun(0, LoadedRun(name, metadata))
            except PublicError as error:
                # Its fast loader does not find again what has a quotation mark in its tag.
                reason = f"{name}: TensorBoard lists it and cannot read it: {error}"
                yield SourcedRun(0, LoadedRun(name, unread(writable(reason))))
        for store in stores_below(self._logdir):
            for loaded in iter_runs(store):
                found = True
                yield SourcedRun(0, loaded)
        if not found:
            raise UnreadableFileError("there is no recorded run in this logdir yet")

    def _blobs(self, kind: str, run: str, tag: str) -> Iterator[bytes]:
        from tensorboard.data import provider

        read = self._provider.read_blob_sequences(
            self._context,
            experiment_id=self._experiment,
            plugin_name=kind,
            run_tag_filter=provider.RunTagFilter(runs=[run], tags=[tag]),
            downsample=1000,
        )
        for datum in read.get(run, {}).get(tag, ()):
            for reference in datum.values:
                content: bytes = self._provider.read_blob(
                    self._context, blob_key=reference.blob_key
                )
                yield content

    def state(self) -> Hashable:
        """What the provider lists, and the sizes of stores."""
        files = (
            file
            for store in stores_below(self._logdir)
            for file in (store, *sorted(store.parent.glob(f"{store.stem}*{store.suffix}-*")))
            if file.exists()
        )
        found = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        return tuple(self._tags()), tuple(found)
