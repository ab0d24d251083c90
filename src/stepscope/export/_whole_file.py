"""Files that are there in full or not at all."""

from __future__ import annotations

import gzip
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable


def write_whole(path: str | os.PathLike[str], chunks: Iterable[bytes]) -> Path:
    """Write `chunks` to `path`, gzip-compressed where the name ends in `.gz`; returns the path.

    Whoever reads `path` sees what was there before or the complete new content, never a part:
    the content goes to a temporary file beside it, which takes its name at the end. When writing
    fails the temporary file is removed and what was at `path` stays. Missing directories are made.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory; name a file to write, such as one in it")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as raw:
            if target.suffix == ".gz":
                # No name and no time inside, so that the same content gives the same file.
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                    packed.writelines(chunks)
            else:
                raw.writelines(chunks)
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            # A full disk does not say which file it was about.
            error.filename = str(target)
        raise
    return target
