"""`worker.json`: which task of a cluster a recording is of, for those who put them together.

It is written when recording begins and again when it ends, so that one that does not say so was
cut off. Fields: `task` ("worker:1"), `cluster` (all tasks there are), `host`, `process`, `ended`.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepscope.analysis.cluster.workers import WORKER_FILE
from stepscope.whole_files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["WORKER_FILE", "WorkerFile", "task_of_environment"]


def task_of_environment() -> tuple[str, list[str]] | None:
    """This process's task and all tasks of its cluster, as TF_CONFIG says; None without one."""
    try:
        said: Any = json.loads(os.environ.get("TF_CONFIG", ""))
        task = f"{said['task']['type']}:{int(said['task'].get('index', 0))}"
        cluster = said.get("cluster") or {}
        tasks = [
            f"{job}:{index}"
            for job, places in cluster.items()
            for index in (places if isinstance(places, dict) else range(len(places)))
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        # What TensorFlow makes of it is TensorFlow's to say.
        return None
    return task, tasks


@dataclass(frozen=True, slots=True)
class WorkerFile:
    """The file in the making."""

    path: Path
    said: dict[str, Any]

    @classmethod
    def of_environment(cls, directory: Path) -> WorkerFile | None:
        """Write the file into a directory, if this process is part of a cluster."""
        found = task_of_environment()
        if found is None:
            return None
        task, cluster = found
        host, process = platform.node(), os.getpid()
        said = {"task": task, "cluster": cluster, "host": host, "process": process, "ended": False}
        file = cls(directory / WORKER_FILE, said)
        file._write(said)
        return file

    def ended(self) -> None:
        """Say that the recording came to its end."""
        # The runs are there whether this is or not.
        with contextlib.suppress(OSError):
            self._write({**self.said, "ended": True})

    def _write(self, said: dict[str, Any]) -> None:
        write_whole(self.path, [json.dumps(said, indent=1).encode(), b"\n"])
