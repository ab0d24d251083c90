"""What hatchling does before it builds or installs the package: the viewer's page, and libraries.

The page of `stepscope view` and of reports is made from `viewer/` (`viewer_page.py`), for wheels,
source distributions and editable installations alike; node for that is asked for only where it
is to be made.

`make_wheel.py` names a directory of compiled libraries in `STEPSCOPE_LIBRARIES`. Without that a
wheel is for any platform and has none: it works all the same, and compiles one where that is asked
for.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from viewer_page import Page

IN_THE_WHEEL = "stepscope/adapters/tensorflow/node_log/libraries"


class BuildHook(BuildHookInterface[Any]):
    """The hook; hatchling finds it by its base class."""

    def dependencies(self) -> list[str]:
        """What is to be installed before the build begins."""
        return self._page().requirements()

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add to what hatchling is about to build."""
        problem = self._page().make()
        if problem:
            self.app.display_warning(problem)
        if self.target_name == "wheel" and version != "editable":
            add_libraries(os.environ.get("STEPSCOPE_LIBRARIES", ""), build_data)

    def _page(self) -> Page:
        # hatchling runs this file without its directory on the path.
        sys.path.insert(0, str(Path(self.root) / "tools"))
        try:
            from viewer_page import Page
        finally:
            sys.path.pop(0)
        return Page(Path(self.root))


def add_libraries(folder: str, build_data: dict[str, Any]) -> None:
    """Put the compiled libraries of a folder into a wheel, and name the platform that it is for."""
    if not folder:
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
