"""A cluster of TensorFlow's own server processes on loopback, for the length of a `with` block."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack

_SERVER = """
import json, os, sys
import tensorflow as tf
spec, job, task = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
server = tf.distribute.Server(tf.train.ClusterSpec(spec), job_name=job, task_index=task)
print("ready", flush=True)
sys.stdin.read()  # until whoever started it is done with it, or is gone
os._exit(0)
"""
_QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "CUDA_VISIBLE_DEVICES": "-1",
}


class Servers:
    """As many tasks of each job as asked for; `target` is the first worker.

    `environments` has what is different in the environment of a task.
    """

    def __init__(self, environments: dict[str, dict[str, str]] | None = None, **tasks: int) -> None:
        self._tasks = tasks
        self._environments = environments or {}
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Servers:
        for _ in range(3):  # a port that was free may be taken when the server comes to it
            self._start()
            if all(p.stdout.readline() == "ready\n" for p in self.processes.values()):
                return self
            self.__exit__()
        raise RuntimeError(f"the servers {self.spec} do not start")

    def _start(self) -> None:
        with ExitStack() as ports:

            def port() -> int:
                held = ports.enter_context(socket.socket())
                held.bind(("127.0.0.1", 0))
                return held.getsockname()[1]

            self.spec = {
                job: [f"127.0.0.1:{port()}" for _ in range(count)]
                for job, count in self._tasks.items()
            }
        for job, addresses in self.spec.items():
            for task in range(len(addresses)):
                own = self._environments.get(f"{job}:{task}", {})
                command = [sys.executable, "-c", _SERVER, json.dumps(self.spec), job, str(task)]
                self.processes[f"{job}:{task}"] = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL, text=True, env={**os.environ, **_QUIET, **own},
                )  # fmt: skip

    @property
    def target(self) -> str:
        return f"grpc://{self.spec['worker'][0]}"

    def kill(self, task: str) -> None:
        self.processes[task].kill()
        self.processes[task].wait()

    def __exit__(self, *_exc: object) -> None:
        for process in self.processes.values():
            process.stdin.close()
        for process in self.processes.values():
            process.wait(20)
            process.stdout.close()
        self.processes.clear()
