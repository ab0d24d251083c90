"""The compiled part of the adapter: an executor type of ours, built for the TensorFlow found.

It comes with the package, where that was installed from a wheel for this platform that has one for
this TensorFlow (see `shipped`); else from the cache of this user (see `library_cache`); else it is
compiled from the source in `native/`, which needs the headers that TensorFlow is installed with and
a C++ compiler (`$CXX`, which may have options, else g++).

Guarantees.
- Where the package has it, no compiler is needed, no home, and nothing is written.
- Nobody waits for the compiler who did not ask for it: `prepare` does, and `stepscope run`, which
  says so. A program that traces a run and finds none has it compiled behind itself, by a process of
  its own that outlives it, at low priority, once: what does not compile is not tried again before
  `prepare` is asked. Functions that were traced by the time it is there stay with the profiler, so
  that no later step waits until they are instantiated for it.
- Once a machine has the library, every process of the user finds it (`use_if_built`), unless it has
  `STEPSCOPE_EXECUTOR=off` in its environment.
- A library's name changes with TensorFlow's version, its binaries (see `fingerprint`) and the
  source. From the cache only one of this user's that is as it was built is loaded. Of anything else
  that is found in its place a process says so once, in one line, and goes on with the profiler;
  `prepare` puts it right.
- A library is kept once a process of its own has logged a run with it, and only then: one that
  would end the process that loads it is never found.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.node_log import library_cache, shipped
from stepscope.adapters.tensorflow.node_log.fingerprint import fingerprint
from stepscope.adapters.tensorflow.node_log.library_cache import LibraryCache
from stepscope.whole_files import whole_file

NATIVE: Final = Path(__file__).with_name("native")
SOURCE: Final = NATIVE / "node_log.cc"
FLAGS: Final = ("-DNDEBUG",)
"""As TensorFlow is built: its headers lay out a graph's nodes otherwise without it."""
NO_COMPILER: Final = "there is no C++ compiler: install g++, or name one in CXX"
SWITCH: Final = "STEPSCOPE_EXECUTOR"
"""The variable of the environment that is "off" where a library found is not to be used."""
_SAID: Final = 2000
"""How many characters of a compiler's messages are told."""
_NICENESS: Final = 10
"""Of what compiles behind a program, whose own may be more already."""
_BEHIND_S: Final = 3600
"""How long compiling behind a program may take: it gives way to all else, and nobody waits."""
_TRIAL: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from stepscope.adapters.tensorflow.node_log import trial; trial.main(*sys.argv[2:])"
)
_BEHIND: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from stepscope.adapters.tensorflow.node_log import build; build.prepare_behind(sys.argv[2])"
)
_preparing = threading.Lock()
_loaded: tuple[ctypes.PyDLL, str] | None = None
"""The library, and the type under which TensorFlow knows our executor."""
_in_use = False
_looked = False
"""Whether the library was looked for, or the program said itself what is to be used."""


class Origin(enum.StrEnum):
    """Where the library that is in use came from."""

    PACKAGE = "It came with Stepscope"
    CACHE = "It had been compiled before"
    COMPILED = "It was compiled now"


class Prepared(NamedTuple):
    """How preparing went."""

    problem: str
    """Why the profiler stays in use; "" where it does not."""
    repaired: tuple[str, ...] = ()
    """What was found that had to be put right."""
    origin: Origin | None = None
    """Where it came from; None where there was a problem."""


def prepare(timeout_s: float = 300) -> str:
    """Have sessions made and functions called from now on logged by an executor of our own.

    That is cheaper than the profiler. Where it did not come with the package it is compiled, the
    first time on a machine, which takes some 20 seconds; from then on all processes find it in the
    cache. A library there that is damaged, or that others could have written, is replaced.
    Returns "" when it is in use, else why the profiler stays in use. Never raises for that.
    """
    return make_ready(timeout_s).problem


def make_ready(timeout_s: float = 300) -> Prepared:
    """`prepare`, which also tells what it repaired and where the library came from."""
    with _preparing:
        deadline, unfit = time.monotonic() + timeout_s, ""
        try:
            name = _name()
            used, unfit = _use_shipped(name)
            if used:
                return Prepared("", origin=Origin.PACKAGE)
            return _from_cache(name, deadline, timeout_s)
        except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
            return Prepared("; ".join(filter(None, (str(error), unfit))))


def use_or_compile(say: Callable[[str], None], timeout_s: float = 300) -> None:
    """Have all functions and sessions executed by it, compiled now where this machine has none.

    `say` is told a line before that takes its time, and one where it cannot be had.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what is odd is repaired below, or told
        use_if_built(untraced=True, compile_behind=False)
    if executor_type():
        return
    version = versions.tensorflow().__version__
    try:
        _compiler()
    except RuntimeError as error:
        problem = str(error)
    else:
        problem = f"{SWITCH}=off" if is_switched_off() else ""
    if not problem:
        say(f"compiling the recorder for TensorFlow {version}, once on this machine (10 to 60 s)")
        problem = prepare(timeout_s)
    if problem:
        say(
            "runs are recorded by TensorFlow's profiler, which slows them down several times, as "
            f"there is no recorder for TensorFlow {version}: {problem.splitlines()[0]}"
        )


def is_switched_off() -> bool:
    """Whether the environment says that a library is not to be used."""
    return os.environ.get(SWITCH, "").lower() == "off"


def use_if_built(*, untraced: bool = False, compile_behind: bool = True) -> None:
    """The same where this machine has it already, unless that is switched off.

    Where it has none, it is compiled behind the program, unless `compile_behind` is False.

    Functions that are called outside of traced runs stay with TensorFlow's executor, for which they
    may be instantiated already, unless `untraced` says otherwise.

    Never raises. Where there is something in its place that may not be loaded, or that cannot be,
    the profiler is as good as it was, and one warning says so.
    """
    global _looked
    if _looked or not _preparing.acquire(blocking=False):
        return
    odd = ""
    try:
        _looked = True
        if is_switched_off():
            return
        try:
            name = _name()
            used, odd = _use_shipped(name, untraced=untraced)
            if used:
                return
            found = LibraryCache(library_cache.folder()).find(name)
            odd = found.odd or odd
            if found.path is not None:
                _use(found.path, untraced=untraced)
                odd = ""
            elif not odd and compile_behind:
                _compile_behind(name)
        except library_cache.OddCacheError:
            pass  # without a home nothing can have been prepared
        except (OSError, RuntimeError) as error:
            odd = str(error)
    finally:
        _preparing.release()
    if odd:
        warnings.warn(
            f"TensorFlow is traced by its profiler, not by Stepscope's own executor: {odd}. "
            f"`stepscope prepare` repairs it; {SWITCH}=off in the environment says that none is "
            "wanted.",
            RuntimeWarning,
            stacklevel=3,
        )


def _compile_behind(name: str) -> None:
    """Have a process of its own prepare a library, and use it once it is there."""
    failed = library_cache.folder() / f"{name}.failed"
    try:
        _compiler()
    except RuntimeError:
        return
    if not sys.executable or failed.exists():
        return
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", SWITCH: "off"}
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0o600) for number in range(3)]
    process = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", _BEHIND, json.dumps(sys.path), str(failed)],
        {**os.environ, **quiet},
        file_actions=nothing,
        setsid=True,
    )

    def use_it() -> None:
        with contextlib.suppress(OSError):
            os.waitpid(process, 0)
        with _preparing:
            found = LibraryCache(library_cache.folder()).find(name)
            if found.path is not None and not _in_use:
                with contextlib.suppress(OSError, RuntimeError):
                    _use(found.path, untraced=False, new_functions_only=True)

    threading.Thread(target=use_it, name="stepscope/compiling", daemon=True).start()


def prepare_behind(failed: str) -> None:
    """What the process does that `_compile_behind` starts; one at a time on a machine."""
    os.nice(max(0, _NICENESS - os.nice(0)))
    place = Path(failed)
    LibraryCache(place.parent).make_private()
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        problem = prepare(_BEHIND_S)
    if problem:
        with whole_file(place) as file:
            file.write(problem.encode())


def turn_off() -> None:
    """Have sessions made and functions called from now on traced by the profiler again."""
    global _in_use, _looked
    _in_use, _looked = False, True
    versions.execute_functions_by("")


def try_out(path: str, kind: str) -> None:
    """Load a library that is not in the cache yet, in a process that is there for nothing else."""
    global _loaded
    _loaded = _load(Path(path), kind)


def library() -> ctypes.PyDLL:
    """The library that was prepared."""
    if _loaded is None:
        raise RuntimeError("The compiled part is not loaded. Call prepare() first.")
    return _loaded[0]


def executor_type() -> str:
    """The type under which TensorFlow knows our executor; "" where it is not in use."""
    return _loaded[1] if _in_use and _loaded is not None else ""


def build_into(folder: Path, timeout_s: float = 300) -> Path:
    """Compile and try the library for this TensorFlow, for a wheel that is to have it.

    Returns where it is, under the name by which `shipped` finds it. Raises `RuntimeError` where it
    cannot be compiled or does not work.
    """
    path = folder / f"{_name()}.so"
    content = _built(_compiler(), folder, path.stem, time.monotonic() + timeout_s, timeout_s)
    with whole_file(path) as file:
        file.write(content)
    return path


def name_for(version: str, build: str) -> str:
    """What a library from this source is called, up to its checksum.

    It is for the TensorFlow of that version whose `fingerprint` is `build`.
    """
    digest = hashlib.sha256(f"{platform.machine()}\0{build}\0".encode())
    for source in sorted(NATIVE.iterdir()):
        digest.update(source.read_bytes())
    return f"node_log-{version}-{digest.hexdigest()[:16]}"


def tensorflow_build() -> str:
    """The fingerprint of the TensorFlow that is installed."""
    folder = Path(versions.tensorflow().sysconfig.get_lib())
    return "".join(map(fingerprint, sorted(folder.glob("libtensorflow_framework.so*"))))


def _use_shipped(name: str, *, untraced: bool = True) -> tuple[bool, str]:
    """Whether the library that came with the package is in use, and why one that did is not."""
    path = shipped.find(name)
    if path is None:
        return False, ""
    try:
        _use(path, untraced=untraced)
    except (OSError, RuntimeError) as error:
        return False, f"the library that came with Stepscope cannot be loaded: {error}"
    return True, ""


def _from_cache(name: str, deadline: float, timeout_s: float) -> Prepared:
    """Use the library that is in the cache, which is compiled where there is none."""
    cache = LibraryCache(library_cache.folder())
    found = cache.find(name)
    compiler = [] if found.path is not None else _compiler()
    repaired = cache.make_private()
    if found.odd and not any(text.startswith(found.odd) for text in repaired):
        repaired.append(found.odd)
    if found.path is not None:
        try:
            _use(found.path)
        except (OSError, RuntimeError) as error:
            repaired.append(str(error))
            compiler = _compiler()
        else:
            return Prepared("", tuple(repaired), Origin.CACHE)
    (cache.folder / f"{name}.failed").unlink(missing_ok=True)
    _use(cache.install(name, _built(compiler, cache.folder, name, deadline, timeout_s)))
    return Prepared("", tuple(repaired), Origin.COMPILED)


def _use(path: Path, *, untraced: bool = True, new_functions_only: bool = False) -> None:
    """With `untraced`, functions are executed by it in untraced runs as well.

    With `new_functions_only`, those that were traced so far are never executed by it.
    """
    global _loaded, _in_use, _looked
    if _loaded is None:
        _loaded = _load(path, _kind(_name()))
    _in_use = _looked = True
    versions.execute_functions_by(
        _loaded[1], untraced=untraced, new_functions_only=new_functions_only
    )


def _name() -> str:
    """What a library for this TensorFlow and this source is called, up to its checksum."""
    return name_for(versions.tensorflow().__version__, tensorflow_build())


def _kind(name: str) -> str:
    return f"STEPSCOPE-{name.rpartition('-')[2]}"


def _built(
    compiler: list[str], folder: Path, name: str, deadline: float, timeout_s: float
) -> bytes:
    """A library, compiled in a directory of its own in `folder`, and tried."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        made = Path(place) / f"{name}.so"
        command = [
            *compiler, "-shared", "-fPIC", "-O2", "-w", *FLAGS,
            *versions.tensorflow().sysconfig.get_compile_flags(), "-std=c++17", str(SOURCE),
            "-o", str(made), *versions.tensorflow().sysconfig.get_link_flags(),
        ]  # fmt: skip
        done = _run(command, timeout_s)
        if done.returncode:
            raise RuntimeError(f"{compiler[0]} could not compile {SOURCE}:\n{done.stdout[:_SAID]}")
        _try(made, _kind(name), deadline - time.monotonic())
        return made.read_bytes()


def _compiler() -> list[str]:
    """The compiler's path and the options that it is to be called with."""
    named = os.environ.get("CXX") or "g++"
    path = shutil.which(named)
    if path is not None:
        return [path]
    words = shlex.split(named)
    path = shutil.which(words[0]) if words else None
    if path is None:
        raise RuntimeError(NO_COMPILER)
    return [path, *words[1:]]


def _try(made: Path, kind: str, timeout_s: float) -> None:
    """Have a process of its own load the library and log a run; raises where that fails."""
    if not sys.executable:
        raise RuntimeError("there is no Python interpreter to try the library with")
    command = [sys.executable, "-c", _TRIAL, json.dumps(sys.path), str(made), kind]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", SWITCH: "off"}
    done = _run(command, max(timeout_s, 0.001), env={**os.environ, **quiet})
    if done.returncode:
        code = done.returncode
        how = f"with status {code}" if code > 0 else f"by {signal.Signals(-code).name}"
        raise RuntimeError(
            f"the library that was compiled is of no use and not kept: a process that tried it "
            f"ended {how}\n{done.stdout[-_SAID:]}".rstrip()
        )


def _run(
    command: list[str], timeout_s: float, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", timeout=timeout_s, env=env, check=False,
    )  # fmt: skip


def _load(path: Path, kind: str) -> tuple[ctypes.PyDLL, str]:
    found = ctypes.PyDLL(str(path))
    try:
        found.stepscope_register.argtypes = [ctypes.c_char_p]
        found.stepscope_register.restype = ctypes.c_int
        text = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)]
        number = [ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)]
        for name, takes, gives in (
            ("enter", [ctypes.c_int, ctypes.c_int64, ctypes.c_char_p], ctypes.c_void_p),
            ("over", [ctypes.c_void_p, ctypes.c_int], ctypes.c_int64),
            ("leave", [ctypes.c_void_p], ctypes.c_int),
            ("read", text, ctypes.c_void_p),
            ("pack", text, ctypes.c_void_p),
            ("give_back", [ctypes.c_void_p], None),
            ("release", [ctypes.c_void_p], None),
            ("graph", [ctypes.c_void_p, ctypes.c_int64], ctypes.c_void_p),
            ("let_go", [ctypes.c_void_p], None),
            ("facts", text, ctypes.c_void_p),
            ("nodes", text, ctypes.c_void_p),
            ("descriptions", number, ctypes.c_void_p),
            ("map", [ctypes.c_char_p, ctypes.c_int64], ctypes.c_int),
        ):
            function: Any = getattr(found, f"stepscope_{name}")
            function.argtypes = takes
            function.restype = gives
    except AttributeError as error:
        raise RuntimeError(str(error)) from error  # it names the library and what it lacks
    if not found.stepscope_register(kind.encode()):
        raise RuntimeError(f"{path}: another copy of it is in this process")
    return found, kind
