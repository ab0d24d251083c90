"""Has hatchling put compiled libraries into a wheel, and name the platform that it is for.

`make_wheel.py` names the directory that they are in, in `STEPSCOPE_LIBRARIES`. Without that a wheel
is for any platform and has none: it works all the same, and compiles one where that is asked for.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

IN_THE_WHEEL = "stepscope/adapters/tensorflow/node_log/libraries"


class CompiledLibraries(BuildHookInterface[Any]):
    """The hook; hatchling finds it by its base class."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add to what hatchling is about to build."""
        folder = os.environ.get("STEPSCOPE_LIBRARIES", "")
        if not folder or version == "editable":
            return
        libraries = sorted(Path(folder).glob("node_log-*.so"))
        if not libraries:
            raise FileNotFoundError(f"STEPSCOPE_LIBRARIES: there is no node_log-*.so in {folder}")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        # They fit a build of TensorFlow, whatever Python it is installed for.
        build_data["tag"] = f"py3-none-{platform}"
        for path in libraries:
            build_data["force_include"][str(path)] = f"{IN_THE_WHEEL}/{path.name}"
