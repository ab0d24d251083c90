"""A cluster of TensorFlow's own server processes on loopback, for the length of a `with` block.

TensorFlow takes seconds to import, so one process does it once and every server is a fork of it,
made before TensorFlow has started anything there. All of them end with that process.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

_NURSERY = """
import ctypes, json, os, signal, sys
import tensorflow as tf
libc = ctypes.CDLL(None)

def serve(asked, ready):
    libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if asked["clock"]:
        offset, ppm, since = asked["clock"]
        libc.move_clock(
            ctypes.c_longlong(offset), ctypes.c_double(ppm), ctypes.c_longlong(since)
        )
    os.environ.update(asked["environment"])
    spec = tf.train.ClusterSpec(asked["spec"])
    server = tf.distribute.Server(spec, job_name=asked["job"], task_index=asked["task"])
    os.write(ready, b"+")
    signal.pause()

for line in sys.stdin:
    asked = json.loads(line)
    if "stop" in asked:
        os.kill(asked["stop"], signal.SIGKILL)
        os.waitpid(asked["stop"], 0)
        print(json.dumps({}), flush=True)
        continue
    told, ready = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.close(told)
            serve(asked, ready)
        finally:
            os._exit(1)
    os.close(ready)
    began = os.read(told, 1) == b"+"
    os.close(told)
    print(json.dumps({"process": process, "began": began}), flush=True)
"""
_QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "CUDA_VISIBLE_DEVICES": "-1",
}


class Nursery:
    """The process whose forks are servers; with a C compiler, their clocks can be moved."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, **_QUIET}
        self.moves_clocks = shutil.which("gcc") is not None
        if self.moves_clocks:
            library = folder / "moved_clock.so"
            source = Path(__file__).with_name("moved_clock.c")
            subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
            environment["LD_PRELOAD"] = str(library)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip

    def ask(self, **asked: Any) -> dict[str, Any]:
        """Have something done, and wait for it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said

    def close(self) -> None:
        """End it, and all servers with it."""
        self._process.kill()
        self._process.communicate()


class Link:
    """A way from one task to another that takes `delay_s` longer than it would; 0 to begin with.

    The first finds the second at `address`. What it asks for is not held up, what it gets is.
    """

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.leads_to = ("", 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.leads_to)
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, target, slow in ((near, far, False), (far, near, True)):
                carried: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
                for work in (
                    lambda s=source, c=carried, slow=slow: self._take(s, c, slow),
                    lambda t=target, c=carried: self._give(t, c),
                ):
                    threading.Thread(target=work, daemon=True).start()

    def _take(self, source: socket.socket, carried: SimpleQueue[Any], slow: bool) -> None:
        data = b"-"
        while data:
            data = b""
            with suppress(OSError):
                data = source.recv(1 << 16)
            carried.put((time.monotonic() + (self.delay_s if slow else 0.0), data))

    def _give(self, target: socket.socket, carried: SimpleQueue[Any]) -> None:
        with target, suppress(OSError):
            while True:
                due, data = carried.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    target.shutdown(socket.SHUT_RDWR)
                    return
                target.sendall(data)

    def close(self) -> None:
        """Take no more connections."""
        # A thread that waits for connections does not see that the socket was closed.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Servers:
    """As many tasks of each job as asked for; `target` is the first worker.

    By task, `clocks` has (nanoseconds ahead, ppm gained, since when), `environments` what is
    different there; `links` by (task, other task) the way by which the first finds the second.
    """

    def __init__(
        self,
        nursery: Nursery,
        clocks: dict[str, tuple[int, float, int]] | None = None,
        links: dict[tuple[str, str], Link] | None = None,
        environments: dict[str, dict[str, str]] | None = None,
        **tasks: int,
    ) -> None:
        self._nursery = nursery
        self._tasks = tasks
        self._clocks = clocks or {}
        self._links = links or {}
        self._environments = environments or {}
        self.spec: dict[str, list[str]] = {}
        self.processes: dict[str, int] = {}

    def __enter__(self) -> Servers:
        for _ in range(3):  # a port that was free may be taken when the server comes to it
            if self._start():
                return self
            self.__exit__()
        raise RuntimeError(f"the servers {self.spec} do not start")

    def _start(self) -> bool:
        with ExitStack() as ports:

            def port() -> int:
                held = ports.enter_context(socket.socket())
                held.bind(("127.0.0.1", 0))
                number: int = held.getsockname()[1]
                return number

            self.spec = {
                job: [f"127.0.0.1:{port()}" for _ in range(count)]
                for job, count in self._tasks.items()
            }
        began = True
        for job, addresses in self.spec.items():
            for index in range(len(addresses)):
                task = f"{job}:{index}"
                said = self._nursery.ask(
                    spec=self._seen_by(task),
                    job=job,
                    task=index,
                    clock=self._clocks.get(task),
                    environment=self._environments.get(task, {}),
                )
                self.processes[task] = said["process"]
                began &= said["began"]
        return began

    def _seen_by(self, task: str) -> dict[str, list[str]]:
        seen = {job: list(addresses) for job, addresses in self.spec.items()}
        for (here, there), link in self._links.items():
            if here == task:
                job, _, index = there.partition(":")
                host, _, port = self.spec[job][int(index)].partition(":")
                link.leads_to = (host, int(port))
                seen[job][int(index)] = link.address
        return seen

    @property
    def target(self) -> str:
        """Where a session connects."""
        return f"grpc://{self.spec['worker'][0]}"

    def kill(self, task: str) -> None:
        """End a task at once."""
        self._nursery.ask(stop=self.processes.pop(task))

    def __exit__(self, *_exc: object) -> None:
        for task in list(self.processes):
            self.kill(task)
