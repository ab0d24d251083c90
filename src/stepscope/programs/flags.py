"""TensorFlow 1's flags and `app.run`: Abseil's, as TensorFlow has them.

The flags of the process are Abseil's own: a program may mix `tf.flags` and `absl.flags`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from absl import app, flags

# Flags belong to the module that defines them, not to this one.
flags.disclaim_key_flags()

_OLD_NAMES = {"flag_name": "name", "default_value": "default", "docstring": "help"}


class _Values:
    """The flags' values; the command line is read when the first of them is asked for."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and not flags.FLAGS.is_parsed():
            flags.FLAGS(sys.argv)
        return getattr(flags.FLAGS, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(flags.FLAGS, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(flags.FLAGS, name)

    def __getitem__(self, name: str) -> Any:
        return flags.FLAGS[name]

    def __contains__(self, name: str) -> bool:
        return name in flags.FLAGS

    def __iter__(self) -> Any:
        return iter(flags.FLAGS)

    def __dir__(self) -> list[str]:
        return dir(flags.FLAGS)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return flags.FLAGS(*args, **kwargs)


FLAGS: Any = _Values()


def _with_old_names(define: Callable[..., Any]) -> Callable[..., Any]:
    """The function, taking its arguments by the names that early programs use, too."""

    @functools.wraps(define)
    def defined(*args: Any, **kwargs: Any) -> Any:
        return define(*args, **{_OLD_NAMES.get(name, name): v for name, v in kwargs.items()})

    return defined


DEFINE_string = _with_old_names(flags.DEFINE_string)
DEFINE_integer = _with_old_names(flags.DEFINE_integer)
DEFINE_float = _with_old_names(flags.DEFINE_float)
DEFINE_boolean = _with_old_names(flags.DEFINE_boolean)
DEFINE_bool = DEFINE_boolean
DEFINE_enum = flags.DEFINE_enum
DEFINE_list = flags.DEFINE_list
DEFINE_spaceseplist = flags.DEFINE_spaceseplist
DEFINE_multi_string = flags.DEFINE_multi_string
DEFINE_multi_integer = flags.DEFINE_multi_integer
DEFINE_multi_float = flags.DEFINE_multi_float
DEFINE_multi_enum = flags.DEFINE_multi_enum
DEFINE_alias = flags.DEFINE_alias


def run(
    main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None
) -> NoReturn:
    """Read the command line, call `main` with what is no flag, and exit with what it returns.

    `main` is by default that of the program. Flags nobody defined are left to `main`, where
    TensorFlow leaves them.
    """
    chosen = main if main is not None else sys.modules["__main__"].main

    def parse(args: Sequence[str]) -> list[str]:
        return list(flags.FLAGS(args, known_only=True))

    app.run(chosen, argv=None if argv is None else list(argv), flags_parser=parse)
    raise AssertionError("app.run ends in SystemExit")
