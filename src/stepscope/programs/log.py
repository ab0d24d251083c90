"""TensorFlow 1's log: Python's logger `tensorflow`, with its levels and a handler on stderr.

The handler is there only if the program has not set up logging itself, and writes to what
`sys.stderr` is when a message comes.
"""

from __future__ import annotations

import itertools
import logging
import sys
import threading
from typing import Any, TextIO

DEBUG, INFO, WARN, ERROR, FATAL = 10, 20, 30, 40, 50

_LOGGER = "tensorflow"
_lock = threading.Lock()
_counts: dict[tuple[str, int], itertools.count[int]] = {}


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to the `sys.stderr` of the moment."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def get_logger() -> logging.Logger:
    """The logger, with a handler if nothing else would show its messages."""
    logger = logging.getLogger(_LOGGER)
    with _lock:
        if not logger.hasHandlers():
            handler = _Stderr()
            handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
            logger.addHandler(handler)
    return logger


def set_verbosity(v: int | str) -> None:
    """Show messages of this level and above: `tf.logging.INFO`, or its name."""
    get_logger().setLevel(v)


def get_verbosity() -> int:
    """The least level that is shown."""
    return get_logger().getEffectiveLevel()


def log(level: int, msg: str, *args: Any, **kwargs: Any) -> None:
    """A message at that level; `args` go in where `msg` has `%s` and the like."""
    get_logger().log(level, msg, *args, stacklevel=2, **kwargs)


def vlog(level: int, msg: str, *args: Any, **kwargs: Any) -> None:
    """As `log`."""
    get_logger().log(level, msg, *args, stacklevel=2, **kwargs)


def debug(msg: str, *args: Any, **kwargs: Any) -> None:
    get_logger().debug(msg, *args, stacklevel=2, **kwargs)


def info(msg: str, *args: Any, **kwargs: Any) -> None:
    get_logger().info(msg, *args, stacklevel=2, **kwargs)


def warning(msg: str, *args: Any, **kwargs: Any) -> None:
    get_logger().warning(msg, *args, stacklevel=2, **kwargs)


def error(msg: str, *args: Any, **kwargs: Any) -> None:
    get_logger().error(msg, *args, stacklevel=2, **kwargs)


def fatal(msg: str, *args: Any, **kwargs: Any) -> None:
    """A message; the program goes on, as with TensorFlow's."""
    get_logger().critical(msg, *args, stacklevel=2, **kwargs)


warn = warning


def log_if(level: int, msg: str, condition: Any, *args: Any) -> None:
    """A message if the condition holds."""
    if condition:
        get_logger().log(level, msg, *args, stacklevel=2)


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """The first and then every n-th message of the line that calls."""
    if _times_before() % n == 0:
        get_logger().log(level, msg, *args, stacklevel=2)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """The first n messages of the line that calls."""
    if _times_before() < n:
        get_logger().log(level, msg, *args, stacklevel=2)


def flush() -> None:
    """Write out what handlers hold back."""
    for handler in get_logger().handlers:
        handler.flush()


def _times_before() -> int:
    """How often the line that called our caller has been here before."""
    frame = sys._getframe(2)
    with _lock:
        key = (frame.f_code.co_filename, frame.f_lineno)
        return next(_counts.setdefault(key, itertools.count()))
