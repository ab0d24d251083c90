"""Where this user keeps what can be made again: measurements, compiled libraries."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

__all__ = ["NoCacheError", "folder"]


class NoCacheError(RuntimeError):
    """There is no directory that is this user's."""


def folder() -> Path:
    """`$XDG_CACHE_HOME/stepscope`, else `~/.cache/stepscope`; it need not be there.

    A relative path in a variable stands for another directory wherever a program is started: it is
    ignored, as the XDG specification asks for. A user without a home is a `NoCacheError`.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    if Path(given).is_absolute():
        return Path(given) / "stepscope"
    home = os.environ.get("HOME", "")
    if not Path(home).is_absolute():
        try:
            home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            home = ""
    if not Path(home).is_absolute():
        raise NoCacheError("this user has no home directory")
    return Path(home) / ".cache" / "stepscope"
