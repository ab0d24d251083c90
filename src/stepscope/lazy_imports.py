"""Public names of a package that are imported when they are asked for (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

__all__ = ["lazy_names"]


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """A `__getattr__` for a package whose modules are loaded by whoever uses them.

    What was asked for once is an ordinary attribute from then on. For type checkers and editors
    the package imports the same names under `typing.TYPE_CHECKING`; a test compares the two.

    Args:
        package: The package's `__name__`.
        modules: By module, named from the package on, the names that are taken from it, with
            blanks between. The modules are attributes of the package, too.

    Returns:
        What the package calls `__getattr__`.

    Example:
        >>> get = lazy_names("stepscope", {"scheduling": "every schedule", "export": ""})
        >>> get("every").__module__, get("export").__name__
        ('stepscope.scheduling', 'stepscope.export')
        >>> get("evry")
        Traceback (most recent call last):
        AttributeError: module 'stepscope' has no attribute 'evry'

    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def found(name: str) -> object:
        value: object
        if name in places:
            value = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
        elif name in modules:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return found
