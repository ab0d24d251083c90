"""The file that the logs of a recorded script lie in, so that they outlive its process.

While a script is recorded, the records of the runs under way lie in a file that is mapped
(`native/log.h`), and the facts of the graphs that they name beside it. What is read of them after
the process's death stands in `metadata/readers/node_log_file.py`.

Guarantees.
- The file is as large from the start as it ever gets. Where it cannot be made, logs lie on the heap
  as ever, and `MappedLogs.problem` says why.
- A process that ends well removes its files.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Final

from stepscope.metadata.readers.node_log_file import GRAPHS, mapped_files

_BYTES: Final = 1 << 23
"""Room for 120,000 executions of runs under way."""


class MappedLogs:
    """The file that this process's logs lie in, from making it to `close`."""

    def __init__(self, library: Any, directory: Path) -> None:
        """Have logs of this process lie in the directory. Files of dead processes are removed."""
        self._library = library
        self._process = os.getpid()
        for path, process in mapped_files(directory):
            if process == self._process or not _is_alive(process):
                _remove(path)
        self._path = directory / f"node_log-{self._process}.map"
        code = library.stepscope_map(os.fsencode(self._path), _BYTES)
        self.problem = os.strerror(code) if code else ""
        """Why they lie on the heap; "" where they do not."""

    def close(self) -> None:
        """The process is going to end well: nothing is left behind. In a fork it does nothing."""
        if self.problem or os.getpid() != self._process:
            return
        self._library.stepscope_map(None, 0)
        _remove(self._path)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _remove(path: Path) -> None:
    for file in (path, path.with_name(path.name + GRAPHS)):
        with contextlib.suppress(OSError):
            file.unlink()
