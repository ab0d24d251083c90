"""One writer of event files per directory, shared by the hooks of a program."""

from __future__ import annotations

import os
import threading

from stepscope.export import FileWriter
from stepscope.graph import get_default_graph

_lock = threading.Lock()
_writers: dict[str, FileWriter] = {}


def writer_for(logdir: str | os.PathLike[str]) -> FileWriter:
    """The writer of a directory, made if there is none: then it writes the default graph first."""
    key = os.fspath(logdir)
    with _lock:
        if key not in _writers:
            graph = get_default_graph()
            _writers[key] = FileWriter(key, graph=graph if graph.version else None)
        return _writers[key]


class FileWriterCache:
    """TensorFlow's name for it."""

    @staticmethod
    def get(logdir: str | os.PathLike[str]) -> FileWriter:
        return writer_for(logdir)

    @staticmethod
    def clear() -> None:
        """Close all writers, and forget them."""
        with _lock:
            for writer in _writers.values():
                writer.close()
            _writers.clear()
