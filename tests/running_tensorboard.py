"""A real TensorBoard on this machine: the one way in which tests start it.

    with TensorBoard(logdir, load_fast="true") as board:
        board.until(lambda: "train" in board.json("data/plugin/graphs/info"))

Most of its start is importing TensorFlow, which it does to read files: so it is a fork of a process
that has done that (`started_python`).
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import started_python
from patience import patient

_T = TypeVar("_T")

_TENSORFLOW = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
LOADERS = ("true", "false")
"""What `--load_fast` can be: TensorBoard has two readers of event files."""


class TensorBoard:
    """Serves a logdir from its making until `close`; `address` ends with a slash."""

    def __init__(self, logdir: str | Path, load_fast: str = "false", *options: str) -> None:
        command = [
            sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--port", "0",
            "--host", "127.0.0.1", "--load_fast", load_fast, "--reload_interval", "1", *options,
        ]  # fmt: skip
        reader, writer = os.pipe()
        with open(writer, "w") as said:
            self._process = started_python.start(
                command,
                cwd=Path.cwd(),
                env={**os.environ, **_TENSORFLOW},
                into=said,
                tensorflow=True,
            )
        self._said = open(reader)  # noqa: SIM115 - closed with it
        self.address = self._found()

    def _found(self) -> str:
        lines = []
        for line in self._said:
            lines.append(line)
            if address := re.search(r"http://127\.0\.0\.1:\d+/", line):
                return address[0]
        raise AssertionError("TensorBoard did not start:\n" + "".join(lines))

    def get(self, path: str, **query: str) -> bytes:
        """What it answers."""
        asked = f"?{urllib.parse.urlencode(query)}" if query else ""
        with urllib.request.urlopen(f"{self.address}{path}{asked}", timeout=patient(60)) as answer:
            content: bytes = answer.read()
            return content

    def json(self, path: str, **query: str) -> Any:
        """What it answers, which is JSON."""
        return json.loads(self.get(path, **query))

    def until(self, look: Callable[[], _T]) -> _T:
        """What is there as soon as it has read its files: it does that while it serves."""
        deadline = time.monotonic() + patient(120)
        while not (found := look()):
            assert time.monotonic() < deadline, self.address
        return found

    def close(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(patient(30))
        self._said.close()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
