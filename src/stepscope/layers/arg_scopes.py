"""Arguments that hold for all calls of some functions in a block: `slim.arg_scope`.

A block's arguments are defaults: what a call passes itself comes first, then the innermost block.
Blocks belong to the thread that opened them.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, cast

_P = ParamSpec("_P")
_R = TypeVar("_R")
Scope = Mapping[str, Mapping[str, Any]]
"""By the key of a function, its arguments by name."""

_scoped: dict[str, Callable[..., Any]] = {}


class _Open(threading.local):
    """The blocks that are open, the innermost last; each holds those around it too."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = [{}]


_open = _Open()


def _key(function: Any) -> str:
    return cast("str", getattr(function, "_arg_scope_key", str(function)))


def add_arg_scope(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function whose arguments `arg_scope` may set.

    >>> @add_arg_scope
    ... def area(width, height=1):
    ...     return width * height
    >>> with arg_scope([area], height=3):
    ...     print(area(2), area(2, height=5))
    6 10
    """
    key = f"{function.__module__}.{function.__qualname__}"
    order = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def scoped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        defaults = _open.scopes[-1].get(key)
        if defaults:
            given = {n: v for n, v in defaults.items() if n not in order[: len(args)]}
            kwargs = {**given, **kwargs}  # type: ignore[assignment]
        return function(*args, **kwargs)

    scoped._arg_scope_key = key  # type: ignore[attr-defined]
    _scoped[key] = scoped
    return scoped


def has_arg_scope(function: Callable[..., Any]) -> bool:
    """Whether `arg_scope` may set the function's arguments.

    >>> has_arg_scope(print)
    False
    """
    return _key(function) in _scoped


def arg_scoped_arguments(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The arguments that hold for a function now.

    >>> @add_arg_scope
    ... def area(width, height=1):
    ...     return width * height
    >>> with arg_scope([area], height=3):
    ...     print(arg_scoped_arguments(area))
    {'height': 3}
    """
    return dict(_open.scopes[-1].get(_key(function), {}))


@contextmanager
def arg_scope(
    list_ops_or_scope: Sequence[Callable[..., Any]] | Scope, **kwargs: Any
) -> Iterator[Scope]:
    """A block in which these arguments hold for these functions; or one as it was, once more.

    >>> @add_arg_scope
    ... def area(width, height=1):
    ...     return width * height
    >>> with arg_scope([area], height=3) as scope:
    ...     pass
    >>> with arg_scope(scope):
    ...     print(area(2))
    6
    """
    if isinstance(list_ops_or_scope, Mapping):
        if kwargs:
            raise ValueError(
                "When attempting to re-use a scope by suppling a dictionary, kwargs must be empty."
            )
        opened: dict[str, Mapping[str, Any]] = dict(list_ops_or_scope)
    else:
        if not isinstance(list_ops_or_scope, (list, tuple)):
            raise TypeError(
                "list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict), not "
                f"{list_ops_or_scope!r}"
            )
        opened = dict(_open.scopes[-1])
        for function in list_ops_or_scope:
            if not has_arg_scope(function):
                raise ValueError(
                    f"{_key(function)} is not decorated with @add_arg_scope: arg_scope cannot set "
                    "its arguments."
                )
            opened[_key(function)] = {**opened.get(_key(function), {}), **kwargs}
    _open.scopes.append(opened)
    try:
        yield opened
    finally:
        _open.scopes.pop()
