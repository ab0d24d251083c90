"""What a page asks for: a resource by name, with parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import quote

from stepscope.errors import StepscopeError

__all__ = ["Asked", "CannotAnswerError", "WrongParameterError", "key_of"]

ALL: Final = "all"
STEP: Final = "step"
_AS_THEY_ARE: Final = "!~*'()-._"


class WrongParameterError(StepscopeError):
    """A parameter is not what it has to be."""


class CannotAnswerError(StepscopeError):
    """These runs do not tell that; `todo` says what would have."""

    def __init__(self, what: str, todo: str = "") -> None:
        super().__init__(what)
        self.todo = todo


class Asked:
    """The parameters of a request.

    >>> Asked({"run": "3"}).run(), Asked({}).run(), Asked({"run": "all"}).run()
    (3, None, 'all')
    """

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self.parameters = dict(parameters)

    def text(self, name: str, default: str = "") -> str:
        """A parameter as it is."""
        return self.parameters.get(name, default)

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number; without a default it has to be there."""
        found = self.parameters.get(name)
        if found is None and default is not None:
            return default
        if found is None or not found.lstrip("-").isdecimal() or len(found) > 20:
            raise WrongParameterError(f"{name} must be a whole number; it was {found!r}")
        return int(found)

    def time(self, name: str, default: float | None = None) -> float:
        """A time in nanoseconds."""
        found = self.parameters.get(name)
        if found is None and default is not None:
            return default
        try:
            value = float(found or "")
        except ValueError:
            value = float("nan")
        if not abs(value) < 1 << 62:
            raise WrongParameterError(f"{name} must be nanoseconds; it was {found!r}")
        return value

    def choice(self, name: str, of: tuple[str, ...]) -> str:
        """One of several, the first where nothing is said."""
        found = self.parameters.get(name, of[0])
        if found not in of:
            raise WrongParameterError(f"{name} must be one of {', '.join(of)}; it was {found!r}")
        return found

    def run(self) -> int | Literal["all", "step"] | None:
        """The run's number, all of them, or a step of a cluster; None where nothing is said."""
        found = self.parameters.get("run")
        if found is None or found == "":
            return None
        if found == ALL:
            return "all"
        if found == STEP:
            return "step"
        return self.number("run")


def key_of(name: str, parameters: Mapping[str, object] | None = None) -> str:
    """What a report calls a resource; parameters that are None are left out.

    >>> key_of("op", {"run": 3, "name": "a b/c"})
    'op?name=a%20b%2Fc&run=3'
    """
    given = sorted((k, v) for k, v in (parameters or {}).items() if v is not None)
    # As the page's encodeURIComponent does.
    pairs = [f"{key}={quote(str(value), safe=_AS_THEY_ARE)}" for key, value in given]
    return f"{name}?{'&'.join(pairs)}" if pairs else name
