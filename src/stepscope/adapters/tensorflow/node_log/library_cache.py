"""Where the compiled library is kept: a directory that only its user can have written to.

Whatever is loaded from there runs with all rights of the program that loads it, and a damaged
library does not fail to load: it ends the process, then or later. So nothing is believed.

Guarantees.
- What `find` gives was put there in full by `install`, as this user: the file is theirs and nobody
  else may write to it, to its directory or to one above; its content has the checksum that is part
  of its name, `node_log-2.21.0-<key>.<checksum>.so`.
- Nobody else can change it between this check and the loading. `install` replaces a library, it
  never writes into one: processes that have the old one loaded keep it.
- What is installed is on the disk, with its name, when `install` returns. Any number of processes
  may install at once; each name is there whole or not at all.
- `find` only reads. Whatever it comes across, it says so and gives nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import secrets
import stat
from pathlib import Path
from typing import Final, NamedTuple

from stepscope import user_cache
from stepscope.whole_files import whole_file

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_CHECKSUM: Final = 32
"""How many hexadecimal digits of a content's SHA-256 are in its name."""
_LARGEST: Final = 1 << 26
"""Bytes that no library of ours has; a file of more is not read to find that out."""
ELSEWHERE: Final = "name another directory, one of your own, in XDG_CACHE_HOME"


class OddCacheError(RuntimeError):
    """Something about the cache is not as it must be; the text says what, and what to do."""


class CachedLibrary(NamedTuple):
    """What the cache has under a name."""

    path: Path | None
    """The library, or None where there is none that may be loaded."""
    odd: str
    """What is there instead; "" where there is nothing at all."""


def folder() -> Path:
    """The user's cache (see `user_cache`); it need not be there."""
    try:
        return user_cache.folder()
    except user_cache.NoCacheError as error:
        raise OddCacheError(f"{error}: {ELSEWHERE}") from None


class LibraryCache:
    """The directory `place`. Links on the way to it are followed once, before anything is checked.

    So a link that somebody else may change leads to nothing that was not checked.
    """

    def __init__(self, place: Path) -> None:
        self.folder = Path(os.path.realpath(place))

    def find(self, stem: str) -> CachedLibrary:
        """The library whose name begins with `stem`. Never raises."""
        odd = ""
        try:
            for path in self._candidates(stem):
                try:
                    self._check()
                    _check_content(path)
                except (OSError, OddCacheError) as error:
                    odd = odd or str(error)
                else:
                    return CachedLibrary(path, "")
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            odd = str(error)
        return CachedLibrary(None, odd)

    def make_private(self) -> list[str]:
        """Have the directory there, for this user alone; tells what had to be mended for that.

        What belongs to somebody else is moved aside where that is possible, never changed. Raises
        `OddCacheError` or `OSError` where the directory cannot be trusted.
        """
        place = self.folder
        missing = [path for path in (place, *place.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
        self._check_above()
        mended = []
        facts = place.lstat()
        if facts.st_uid != os.geteuid():
            aside = place.with_name(f"{place.name}-of-{facts.st_uid}-{secrets.token_hex(4)}")
            try:
                place.rename(aside)
            except OSError as error:
                raise OddCacheError(f"{_not_ours(place, facts)}: {ELSEWHERE}") from error
            place.mkdir(mode=0o700)
            mended.append(f"{_not_ours(place, facts)}: it is now {aside}")
            facts = place.lstat()
        if not stat.S_ISDIR(facts.st_mode):
            raise OddCacheError(f"{place} is not a directory: remove it, or {ELSEWHERE}")
        if facts.st_mode & _OTHERS:
            place.chmod(0o700)
            mended.append(_open_to_others(place, facts))
        return mended

    def install(self, stem: str, content: bytes) -> Path:
        """Keep `content` as the library of that name, in place of any other.

        The directory must have been made private.
        """
        path = self.folder / f"{stem}.{_checksum(content)}.so"
        with whole_file(path, durable=True) as file:
            os.fchmod(file.fileno(), stat.S_IRUSR | stat.S_IWUSR)
            file.write(content)
        for other in self._candidates(stem):
            if other != path:
                with contextlib.suppress(OSError):
                    other.unlink()
        return path

    def _candidates(self, stem: str) -> list[Path]:
        begin = f"{stem}."
        names = sorted(self.folder.iterdir())
        return [path for path in names if path.name.startswith(begin) and path.suffix == ".so"]

    def _check(self) -> None:
        """That nobody else can have put anything there, or can put another in its stead."""
        facts = self.folder.lstat()
        if facts.st_uid != os.geteuid():
            raise OddCacheError(_not_ours(self.folder, facts))
        if facts.st_mode & _OTHERS_WRITE:
            raise OddCacheError(_open_to_others(self.folder, facts))
        self._check_above()

    def _check_above(self) -> None:
        for above in self.folder.parents:
            facts = above.lstat()
            if facts.st_uid not in (0, os.geteuid()):
                raise OddCacheError(f"{_not_ours(above, facts)}: {ELSEWHERE}")
            # In a sticky directory (/tmp) nobody but the owner of an entry can put another there.
            if facts.st_mode & _OTHERS_WRITE and not facts.st_mode & stat.S_ISVTX:
                raise OddCacheError(
                    f"{_open_to_others(above, facts)}: chmod go-w it, or {ELSEWHERE}"
                )


def _check_content(path: Path) -> None:
    """That a library is this user's own and as it was installed."""
    # Not to wait for whoever writes to a pipe, nor to follow a link out of the directory.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise OddCacheError(f"{path} is not a file")
        if facts.st_uid != os.geteuid():
            raise OddCacheError(_not_ours(path, facts))
        if facts.st_mode & _OTHERS_WRITE:
            raise OddCacheError(_open_to_others(path, facts))
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read() if facts.st_size < _LARGEST else b""
    finally:
        os.close(descriptor)
    if path.name.split(".")[-2] != _checksum(content):
        raise OddCacheError(
            f"{path} is damaged: its {facts.st_size:,} bytes have another checksum than its name"
        )


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_CHECKSUM]


def _not_ours(path: Path, facts: os.stat_result) -> str:
    return f"{path} belongs to {_owner(facts)}, not to this user"


def _owner(facts: os.stat_result) -> str:
    try:
        return pwd.getpwuid(facts.st_uid).pw_name
    except KeyError:
        return f"uid {facts.st_uid}"


def _open_to_others(path: Path, facts: os.stat_result) -> str:
    what = "written to" if facts.st_mode & _OTHERS_WRITE else "read"
    return f"{path} can be {what} by others (mode {stat.S_IMODE(facts.st_mode):04o})"
