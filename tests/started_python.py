"""Processes of Python that begin where most of a start is over: `run` is `subprocess.run` for them.

What `python -m stepscope run` does before the first line of a script is mostly importing, half a
second of it for the embedded engine and three for TensorFlow. Here one process imports once, and
every command is a fork of it, made before anything else happened there. The program cannot tell:
TensorFlow counts as not imported until it imports it, arguments, directory, environment and
standard streams are its own, and it ends as it would.

What is decided while Python starts or TensorFlow is loaded was decided for that process: it has the
environment of the command as far as that is about the start, and there is one for every such start
that is asked for twice. A command that is given other options of `subprocess.run` than these, and
the first that wants an unusual start, is started as any other.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_HERE = Path(__file__)
_TENSORFLOW = {
    "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1",
}  # fmt: skip
_AT_START = (
    "PYTHON", "LD_", "LC_", "LANG", "TF_", "KERAS_", "OMP_", "OPENBLAS_", "STEPSCOPE_POISON",
)  # fmt: skip
_LATER = (
    "PYTHONWARNINGS", "TF_CONFIG", "TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB",
)  # fmt: skip
"""Variables that begin like those which count at the start, and can be set later all the same."""
Start = frozenset[tuple[str, str]]

_origins: dict[tuple[bool, Start], _Origin] = {}
_seen: set[Start] = set()
"""Starts that were asked for once: from the second on there is a process to fork."""
_starting = threading.Lock()


class Process:
    """A command under way; its output goes to files."""

    def __init__(self, connection: socket.socket, outputs: Sequence[IO[str]]) -> None:
        self._connection = connection
        self._outputs = outputs
        self.pid = int(self._told())
        self.returncode: int | None = None

    def _told(self) -> str:
        said = b""
        while not said.endswith(b"\n"):
            part = self._connection.recv(100)
            assert part, "the process that commands are forks of has died"
            said += part
        return said.decode()

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, as `subprocess` says it; raises TimeoutError after so many seconds."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            self.returncode = os.waitstatus_to_exitcode(int(self._told()))
            self._connection.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> list[str]:
        """What it wrote to standard output and error, once it has ended; asked for once."""
        self.wait(timeout)
        said = []
        for output in self._outputs:
            with output:
                output.seek(0)
                said.append(output.read())
        return said

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)


class _Origin:
    """The process whose forks the commands are; it ends with this one."""

    def __init__(self, environment: Mapping[str, str], *, tensorflow: bool) -> None:
        folder = tempfile.mkdtemp(prefix="started-python-")
        self._address = str(Path(folder) / "socket")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._address)
        listener.listen()
        self._process = subprocess.Popen(
            [sys.executable, _HERE, str(listener.fileno()), "tensorflow" if tensorflow else ""],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={name: value for name, value in environment.items() if name not in _LATER},
            pass_fds=[listener.fileno()],
        )  # fmt: skip
        listener.close()
        atexit.register(self._close, folder)

    def _close(self, folder: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        Path(self._address).unlink()
        Path(folder).rmdir()

    def fork(self, asked: Mapping[str, Any], outputs: Sequence[IO[str]]) -> Process:
        """Have it become a command."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        descriptors = [0, outputs[0].fileno(), outputs[-1].fileno()]
        socket.send_fds(connection, [json.dumps(asked).encode() + b"\n"], descriptors)
        return Process(connection, outputs)


def _start_of(environment: Mapping[str, str]) -> Start:
    """What an environment says about the start of a process."""
    return frozenset(
        (name, value) for name, value in environment.items()
        if name.startswith(_AT_START) and name not in _LATER
    )  # fmt: skip


def start(
    command: Sequence[str | Path],
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    outputs: int = 2,
    into: IO[str] | None = None,
    tensorflow: bool | None = None,
) -> Process:
    """Start `[sys.executable, ...]`: a script, or what follows `-m` or `-c`.

    With one output, standard error goes where standard output goes; both go `into` a file where
    one is given. `tensorflow` says whether it will import that; by default, what it seems to do.
    """
    executable, *arguments = map(str, command)
    assert executable == sys.executable, command
    assert arguments[0] in ("-m", "-c") or not arguments[0].startswith("-"), command
    if tensorflow is None:
        runs = arguments[0] != "-m" or arguments[2:3] == ["run"]
        tensorflow = "embedded" not in arguments and runs
    kind = tensorflow, _start_of(env)
    with _starting:
        if kind not in _origins:
            _origins[kind] = _Origin(env, tensorflow=tensorflow)
    asked = {"arguments": arguments, "directory": str(cwd), "environment": dict(env)}
    if into is not None:
        return _origins[kind].fork(asked, [into])
    files = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(outputs)]  # noqa: SIM115
    return _origins[kind].fork(asked, files)


def run(
    command: Sequence[str | Path], *, cwd: str | Path, env: Mapping[str, str], timeout: float,
    check: bool = False, **options: Any,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """`subprocess.run` with its output captured as text."""
    kind = _start_of(env)
    is_usual = kind == _start_of(os.environ) or kind == _start_of({**os.environ, **_TENSORFLOW})
    if options or not (is_usual or kind in _seen):
        _seen.add(kind)
        return subprocess.run(
            command, cwd=cwd, env=env, timeout=timeout, check=check, capture_output=True,
            text=True, **options,
        )  # fmt: skip
    process = start(command, cwd=cwd, env=env)
    try:
        out, err = process.communicate(timeout)
    except TimeoutError:
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate()
        raise subprocess.TimeoutExpired(command, timeout, out, err) from None
    done = subprocess.CompletedProcess(command, process.wait(), out, err)
    if check:
        done.check_returncode()
    return done


# -- the process that is forked ----------------------------------------------------------------


def _import(tensorflow: bool) -> None:
    """Whatever a command may import, but for TensorFlow's adapter: that needs TensorFlow."""
    import importlib
    import pkgutil

    import stepscope

    for module in pkgutil.walk_packages(stepscope.__path__, "stepscope."):
        if not module.name.startswith("stepscope.adapters") and "__main__" not in module.name:
            importlib.import_module(module.name)
    importlib.import_module("stepscope.adapters.tensorflow.script.patches")
    if tensorflow and importlib.util.find_spec("tensorflow"):
        importlib.import_module("tensorflow")
        sys.meta_path.insert(0, _Imported())


class _Imported:
    """Finds TensorFlow and Keras in this process, where they have been taken out of `sys.modules`.

    With the first of their modules that a program imports, all are back.
    """

    def __init__(self) -> None:
        tops = ("tensorflow", "keras", "tf_keras", "tensorflow_estimator")
        names = [name for name in sys.modules if name.partition(".")[0] in tops]
        self._modules = {name: sys.modules.pop(name) for name in names}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        from importlib.machinery import ModuleSpec

        del path, target
        if name not in self._modules or "." in name:
            return None
        known = self._modules[name].__spec__
        spec = ModuleSpec(name, self, origin=known.origin)
        spec.has_location = True
        spec.submodule_search_locations = known.submodule_search_locations
        return spec

    def create_module(self, spec: Any) -> Any:
        return self._modules[spec.name]

    def exec_module(self, module: Any) -> None:
        import importlib

        if module.__name__ != "tensorflow":
            importlib.import_module("tensorflow")  # they do that themselves
        elif self in sys.meta_path:
            sys.meta_path.remove(self)
            sys.modules.update(self._modules)


def _serve(listener: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for every command that is asked for, and say how it ended; returns in each fork.

    Ends when standard input does.
    """
    import ctypes
    import selectors

    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    waiting.register(0, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj == 0:
                os._exit(0)
            if key.fileobj is not listener:
                process, connection = key.data
                waiting.unregister(key.fileobj)
                os.close(key.fd)
                connection.sendall(b"%d\n" % os.waitpid(process, 0)[1])
                connection.close()
                continue
            connection, _ = listener.accept()
            text, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 3)
            while not text.endswith(b"\n"):
                text += connection.recv(1 << 16)
            process = os.fork()
            if not process:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
                for other in list(waiting.get_map().values()):
                    if other.data:
                        os.close(other.fd)
                        other.data[1].close()
                waiting.close()
                listener.close()
                connection.close()
                return json.loads(text), descriptors
            for descriptor in descriptors:
                os.close(descriptor)
            connection.sendall(b"%d\n" % process)
            waiting.register(os.pidfd_open(process), selectors.EVENT_READ, (process, connection))


def _become(asked: dict[str, Any], descriptors: list[int]) -> None:
    """Run a command as Python would."""
    import runpy
    import types
    import warnings

    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    if wanted := os.environ.get("PYTHONWARNINGS"):
        sys.warnoptions[:] = wanted.split(",")
        for action in sys.warnoptions:
            warnings.simplefilter(action)  # type: ignore[arg-type]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if asked["arguments"][0] in ("-m", "-c"):
        option, program, *rest = asked["arguments"]
        sys.argv[:] = [option, *rest]
        sys.path[0] = asked["directory"] if option == "-m" else ""
        if option == "-m":
            runpy._run_module_as_main(program)  # type: ignore[attr-defined]
        else:
            exec(program, main.__dict__)
    else:
        sys.argv[:] = asked["arguments"]
        path = Path(sys.argv[0])
        sys.path[0] = str(path.resolve().parent)
        main.__file__ = sys.argv[0]
        exec(compile(path.read_bytes(), sys.argv[0], "exec"), main.__dict__)


if __name__ == "__main__":
    import gc

    _listener = socket.socket(fileno=int(sys.argv[1]))
    _import(bool(sys.argv[2]))
    gc.freeze()  # so that forks share it
    _become(*_serve(_listener))
