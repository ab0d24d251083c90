"""Compiled libraries that came with the package, in a wheel for this platform (`make wheel`).

Guarantees.
- They are files of the package and trusted as its Python files are: nothing about them is checked
  but the name, which says for which TensorFlow and from which source each was compiled.
- Each has logged a run with that TensorFlow before the wheel was made.
- A package that was installed from its source, or from a wheel for any platform, has none; nor has
  one whose folder this user may not look into.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("libraries")


def find(name: str) -> Path | None:
    """The library of that name; None where the package has none."""
    path = FOLDER / f"{name}.so"
    return path if os.path.isfile(path) else None  # noqa: PTH113 - which raises nothing
