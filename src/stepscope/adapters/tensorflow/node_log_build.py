"""The compiled part of the adapter: an executor type of ours, built for the TensorFlow found.

Its source is `native/node_log.cc`. It needs the headers that TensorFlow is installed with and a C++
compiler (`$CXX`, else g++).

Guarantees.
- Nothing is compiled unless somebody asked for it (`prepare`), and nobody else waits for that.
- Once a machine has the library, every process of the user finds it (`use_if_built`), unless it has
  `STEPSCOPE_EXECUTOR=off` in its environment.
- A library is in the cache whole or not at all, under a name that changes with TensorFlow's version
  and with the source. Any number of processes may build it at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from stepscope.adapters.tensorflow import versions

SOURCE: Final = Path(__file__).with_name("native") / "node_log.cc"
NO_COMPILER: Final = "there is no C++ compiler: install g++, or name one in CXX"
SWITCH: Final = "STEPSCOPE_EXECUTOR"
"""The variable of the environment that is "off" where a library found is not to be used."""
_SAID: Final = 2000
"""How many characters of a compiler's messages are told."""
_preparing = threading.Lock()
_loaded: tuple[ctypes.PyDLL, str] | None = None
"""The library, and the type under which TensorFlow knows our executor."""
_in_use = False
_looked = False
"""Whether the library was looked for, or the program said itself what is to be used."""


def prepare(timeout_s: float = 300) -> str:
    """Have sessions made and functions called from now on logged by an executor of our own.

    That is cheaper than the profiler. The first time on a machine it is compiled, which takes some
    20 seconds; from then on all processes find it in the cache. Returns "" when it is in use, else
    why the profiler stays in use. Never raises for that.
    """
    with _preparing:
        try:
            _use(_library_file(timeout_s))
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            return str(error)
        return ""


def use_if_built() -> None:
    """The same where this machine has it already, unless that is switched off. Compiles nothing."""
    global _looked
    if _looked or not _preparing.acquire(blocking=False):
        return
    try:
        _looked = True
        if os.environ.get(SWITCH, "").lower() == "off":
            return
        target, _ = _target()
        if target.exists():
            # Where it cannot be loaded the profiler is as good as it was; `prepare` says why.
            with contextlib.suppress(OSError, RuntimeError):
                _use(target)
    finally:
        _preparing.release()


def turn_off() -> None:
    """Have sessions made and functions called from now on traced by the profiler again."""
    global _in_use, _looked
    _in_use, _looked = False, True
    versions.execute_functions_by("")


def _use(path: Path) -> None:
    global _loaded, _in_use, _looked
    if _loaded is None:
        _loaded = _load(path)
    _in_use = _looked = True
    versions.execute_functions_by(_loaded[1])


def library() -> ctypes.PyDLL:
    """The library that was prepared."""
    if _loaded is None:
        raise RuntimeError("The compiled part is not loaded. Call prepare() first.")
    return _loaded[0]


def executor_type() -> str:
    """The type under which TensorFlow knows our executor; "" where it is not in use."""
    return _loaded[1] if _in_use and _loaded is not None else ""


def _target() -> tuple[Path, list[str]]:
    """Where the library for this TensorFlow and this source is kept; how it is to be compiled."""
    tensorflow = versions.tensorflow()
    flags: list[str] = tensorflow.sysconfig.get_compile_flags()
    about = [tensorflow.version.GIT_VERSION, platform.machine()]
    about += [flag for flag in flags if not flag.startswith("-I")]
    digest = hashlib.sha256(SOURCE.read_bytes() + "\0".join(about).encode()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stepscope"
    return folder / f"node_log-{tensorflow.__version__}-{digest}.so", flags


def _library_file(timeout_s: float) -> Path:
    """The library for this TensorFlow and this source: found in the cache, or compiled."""
    target, flags = _target()
    if target.exists():
        return target
    compiler = shutil.which(os.environ.get("CXX") or "g++")
    if compiler is None:
        raise RuntimeError(NO_COMPILER)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        made = Path(place) / target.name
        command = [
            compiler, "-shared", "-fPIC", "-O2", "-w", *flags, "-std=c++17", str(SOURCE),
            "-o", str(made), *versions.tensorflow().sysconfig.get_link_flags(),
        ]  # fmt: skip
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=timeout_s, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{compiler} could not compile {SOURCE}:\n{done.stdout[:_SAID]}")
        made.replace(target)
    return target


def _load(path: Path) -> tuple[ctypes.PyDLL, str]:
    found = ctypes.PyDLL(str(path))
    found.stepscope_register.argtypes = [ctypes.c_char_p]
    found.stepscope_register.restype = ctypes.c_int
    found.stepscope_enter.argtypes = [ctypes.c_int]
    found.stepscope_enter.restype = ctypes.c_void_p
    found.stepscope_read.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)]
    found.stepscope_read.restype = ctypes.c_void_p
    for name in ("stepscope_leave", "stepscope_give_back", "stepscope_release"):
        function: Any = getattr(found, name)
        function.argtypes = [ctypes.c_void_p]
        function.restype = None
    kind = f"STEPSCOPE-{path.stem.rpartition('-')[2]}"
    if not found.stepscope_register(kind.encode()):
        raise RuntimeError(f"{path}: another copy of it is in this process.")
    return found, kind
