"""Noticing that a program imports TensorFlow, and giving it version 1's names where it wants them.

What records a program on TensorFlow is made and loaded when that happens: one that never does waits
for none of it.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import logging
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stepscope.own_code import is_own_module

if TYPE_CHECKING:
    from stepscope.adapters.tensorflow.script.recorder import ScriptRecorder

__all__ = ["TensorFlowFinder", "install", "installed", "is_library", "version"]

_NAME = "tensorflow"


def installed() -> bool:
    """Whether TensorFlow can be imported; nothing is imported to find out."""
    try:
        return importlib.util.find_spec(_NAME) is not None
    except (ImportError, ValueError):
        return False


def version() -> str:
    """TensorFlow's version, from its package's record: nothing is imported."""
    from importlib import metadata

    for package in (_NAME, "tensorflow-cpu", "tf-nightly", "tensorflow-macos"):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return str(getattr(sys.modules.get(_NAME), "__version__", "of unknown version"))


def install(
    make_recorder: Callable[[], ScriptRecorder], *, as_tensorflow1: Callable[[], bool],
    package: str = "",
) -> None:  # fmt: skip
    """Record whatever this process runs on TensorFlow, from when it imports it on.

    `make_recorder` is called when it is about to. `as_tensorflow1` is asked once, when TensorFlow
    is there. Where it says so, the program's own modules get TensorFlow 1's names for
    `import tensorflow`, with version 2's behaviour off; libraries get TensorFlow as it is.
    `package` is the one that the main module lies in, if any: what lies in it is the program's own,
    wherever it is installed.
    """
    # The statement that imports TensorFlow first must be given version 1's names, too, so that it
    # has to be replaced before it is known whether that is needed.
    importing = _ImportingVersion1(builtins.__import__, package)
    builtins.__import__ = importing

    def coming() -> Callable[[], None]:
        from stepscope.adapters.tensorflow.script.patches import patch

        recorder = make_recorder()

        def loaded() -> None:
            began = time.time_ns()
            with recorder.cost.ours():
                importing.active = as_tensorflow1()
                if importing.active:
                    _disable_version_2()
                elif builtins.__import__ is importing:
                    builtins.__import__ = importing.original
                patch(recorder)
            recorder.prepared(began)

        return loaded

    sys.meta_path.insert(0, TensorFlowFinder(coming))


def is_library(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package, not to the program."""
    paths = {sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib")}
    place = Path(file).resolve()
    return any(place.is_relative_to(Path(folder).resolve()) for folder in paths)


class TensorFlowFinder(MetaPathFinder):
    """Finds TensorFlow where it is; has `coming` called before it is loaded, and what that gives
    when it is.
    """

    def __init__(self, coming: Callable[[], Callable[[], None]]) -> None:
        self._coming = coming

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != _NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(_NAME)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._coming())
        return spec


class _Loader(Loader):
    def __init__(self, loader: Loader, loaded: Callable[[], None]) -> None:
        self._loader = loader
        self._loaded = loaded

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._loaded()


# -- TensorFlow 1 ------------------------------------------------------------------------------


def _disable_version_2() -> None:
    """Turn version 2's behaviour off, without what TensorFlow has to say about that."""
    logger = logging.getLogger(_NAME)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        importlib.import_module(_NAME).compat.v1.disable_v2_behavior()
    finally:
        logger.setLevel(level)


class _ImportingVersion1:
    """`__import__` that can give the program's own modules TensorFlow 1's names."""

    def __init__(self, original: Callable[..., Any], package: str) -> None:
        self.original = original
        self.active = False
        self._own = package.partition(".")[0]

    def __call__(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (),
        level: int = 0,
    ) -> Any:  # fmt: skip
        module = self.original(name, globals, locals, fromlist, level)
        if not self.active or level:
            return module
        if name != _NAME and (fromlist or not name.startswith(f"{_NAME}.")):
            return module
        return sys.modules[_NAME].compat.v1 if self._is_own(globals or {}) else module

    def _is_own(self, module: dict[str, Any]) -> bool:
        name = str(module.get("__name__", ""))
        if name == "__main__" or (self._own and name.partition(".")[0] == self._own):
            return True
        file = module.get("__file__")
        return file is not None and not is_own_module(name) and not is_library(file)
