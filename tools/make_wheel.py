"""Makes a wheel for this platform that has the compiled executor for every TensorFlow there is.

    python tools/make_wheel.py [--out dist] [--kept build/libraries] [--only tensorflow-cpu==2.21.0]

Each release of `tensorflow-cpu` and `tensorflow` from 2.15 on that pip finds for a Python here is
installed into an environment of its own, beside Stepscope as users install it. There our library is
compiled with the flags that this TensorFlow names, and logs a run in a process of its own; then the
environment is removed. `auditwheel` looks at what the libraries need of the system and names the
wheel after the oldest one that has it; TensorFlow's own library is the user's.

Guarantees.
- The wheel has no library that has not logged a run with the TensorFlow it is for.
- A library is kept by its source and the build of TensorFlow, and not made again: a second time
  takes a minute. Nothing else stays on the disk, of which some 3 GB are needed meanwhile.
- What is not in the wheel is named, with the reason. Exit code 1: something that could be installed
  did not work. The wheel is there, without it.
- Libraries and source in a wheel are of one kind: where the source was changed meanwhile, there is
  no wheel.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.version import Version

from stepscope.adapters.tensorflow.node_log import build
from stepscope.whole_files import whole_file

ROOT = Path(__file__).parents[1]
PACKAGES = ("tensorflow-cpu", "tensorflow")
OLDEST = Version("2.15")
OLDEST_PYTHON = (3, 11)
_TOLD = 1500
"""How many characters of what a program said at its end are told."""
_COMPILES = """
import json, sys
from pathlib import Path
from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.node_log import build
facts = {"version": versions.tensorflow().__version__, "build": build.tensorflow_build()}
kept = Path(sys.argv[1])
new = not (kept / (build.name_for(**facts) + ".so")).exists()
if new:
    build.build_into(kept)
print("result", json.dumps([facts, new]))
"""


class Release(NamedTuple):
    """A release of TensorFlow, and the Python that it is tried with."""

    package: str
    version: Version
    python: str

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"


class Made(NamedTuple):
    """What became of a release."""

    release: Release
    library: Path | None
    how: str
    """What was done for it, or why there is none."""
    seconds: float


class FailedError(RuntimeError):
    """A program that was started did not do what it was started for; the text is what it said."""


def main(words: Sequence[str] | None = None) -> int:
    """Make the wheel, and tell what is in it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the wheel goes")
    parser.add_argument("--kept", type=Path, default=ROOT / "build" / "libraries",
                        help="where compiled libraries are kept for the next time")  # fmt: skip
    parser.add_argument("--only", nargs="+", metavar="PACKAGE==VERSION", default=(),
                        help="these releases, instead of all that are found")  # fmt: skip
    given = parser.parse_args(words)
    given.kept.mkdir(parents=True, exist_ok=True)
    known, source = _Known(given.kept / "builds.json"), build.name_for("", "")
    with tempfile.TemporaryDirectory(prefix="stepscope-wheel-") as name:
        place = Path(name)
        plain = hatch(place / "plain", {})
        made = []
        for release in releases(given.only):
            made.append(library_for(release, plain, given.kept, known, place))
            if build.name_for("", "") != source:
                say("The source of the libraries was changed meanwhile: there is no wheel.")
                return 1
            say(_line(made[-1]))
        libraries = {one.library for one in made if one.library is not None}
        if not libraries:
            say("No library could be made: there is no wheel.")
            return 1
        shipped = place / "shipped"
        shipped.mkdir()
        for path in libraries:
            shutil.copy(path, shipped)
        wheel = audited(hatch(place / "wheel", {"STEPSCOPE_LIBRARIES": str(shipped)}), given.out)
    size = wheel.stat().st_size
    say(f"{wheel}: {len(libraries)} libraries for {len(made)} releases, {size / 1e6:.1f} MB")
    return int(any(one.library is None for one in made))


def releases(only: Sequence[str] = ()) -> list[Release]:
    """All that can be installed here, newest first, each with the first Python that has it."""
    found: dict[tuple[str, Version], str] = {}
    for python in pythons():
        for package in PACKAGES:
            for version in available(package, python):
                found.setdefault((package, version), python)
    every = [Release(package, version, python) for (package, version), python in found.items()]
    chosen = [one for one in every if not only or str(one) in only]
    for name in set(only) - {str(one) for one in chosen}:
        raise SystemExit(f"{name}: pip finds none for {', '.join(pythons())}")
    chosen.sort(key=lambda one: one.version, reverse=True)
    return sorted(chosen, key=lambda one: PACKAGES.index(one.package))


def pythons() -> list[str]:
    """Interpreters that Stepscope runs on: this one, then others, one of each version."""
    others = [shutil.which(f"python3.{minor}") for minor in range(OLDEST_PYTHON[1], 30)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    others += map(str, sorted(pyenv.glob("versions/3.*/bin/python")))
    found: dict[str, str] = {}
    for python in (sys.executable, *filter(None, others)):
        with contextlib.suppress(FailedError, OSError):
            told = run([python, "-c", "import sys; print(*sys.version_info[:2])"]).split()
            if (int(told[0]), int(told[1])) >= OLDEST_PYTHON:
                found.setdefault(".".join(told), python)
    return list(found.values())


def available(package: str, python: str) -> list[Version]:
    """The releases that pip would install for that interpreter, on this platform."""
    version = run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()
    try:
        told = run([sys.executable, "-m", "pip", "index", "versions", package,
                    "--python-version", version, "--only-binary", ":all:"])  # fmt: skip
    except FailedError as error:
        if "No matching distribution" in str(error):
            return []
        raise
    listed = re.search(r"^Available versions: (.*)$", told, re.MULTILINE)
    if listed is None:
        raise FailedError(f"pip did not list the versions of {package}:\n{told}")
    every = map(Version, listed[1].split(", "))
    return [one for one in every if one >= OLDEST and not one.is_prerelease]


def library_for(release: Release, plain: Path, kept: Path, known: _Known, place: Path) -> Made:
    """The library for a release, which is compiled and tried where none is kept."""
    start = time.monotonic()
    facts = known.of(release)
    how = "kept"
    if facts is None or not _path(kept, facts).exists():
        try:
            with environment(release, plain, place) as python:
                facts, new = compiled(python, kept)
        except FailedError as error:
            return Made(release, None, str(error), time.monotonic() - start)
        known.add(release, facts)
        how = "compiled and tried" if new else "the same build as another release"
    return Made(release, _path(kept, facts), how, time.monotonic() - start)


@contextlib.contextmanager
def environment(release: Release, plain: Path, place: Path) -> Iterator[Path]:
    """The interpreter of a virtual environment with that TensorFlow and Stepscope."""
    folder = place / "environment"
    try:
        run([release.python, "-m", "venv", "--without-pip", str(folder)])
        python = folder / "bin" / "python"
        run([sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet",
             "--no-cache-dir", "--no-compile", "--only-binary", ":all:", str(plain),
             str(release)])  # fmt: skip
        yield python
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compiled(python: Path, kept: Path) -> tuple[dict[str, str], bool]:
    """Which TensorFlow that interpreter has, and whether its library is new in `kept`."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    told = run([str(python), "-I", "-c", _COMPILES, str(kept)], quiet)
    facts, new = json.loads(told.splitlines()[-1].removeprefix("result "))
    return facts, new


class _Known:
    """Which version and build a release has, found when it was installed; releases never change."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._facts: dict[str, dict[str, str]] = {}
        if path.exists():
            self._facts = json.loads(path.read_bytes())

    def of(self, release: Release) -> dict[str, str] | None:
        return self._facts.get(str(release))

    def add(self, release: Release, facts: dict[str, str]) -> None:
        self._facts[str(release)] = facts
        with whole_file(self._path) as file:
            file.write(json.dumps(self._facts, indent=1).encode())


def _path(kept: Path, facts: dict[str, str]) -> Path:
    return kept / f"{build.name_for(**facts)}.so"


def hatch(folder: Path, environment: dict[str, str]) -> Path:
    """A wheel of this source as hatchling makes it."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    run([*command, "--directory", str(folder)], environment)
    (wheel,) = folder.glob("*.whl")
    return wheel


def audited(wheel: Path, out: Path) -> Path:
    """That wheel in `out`, named after the oldest system that has what its libraries need."""
    folder = wheel.parent / "audited"
    tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    run([sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "--exclude",
         "libtensorflow_framework.so.2", "--wheel-dir", str(folder), str(wheel)],
        {"PATH": tools})  # fmt: skip
    (made,) = folder.glob("*.whl")
    with whole_file(out / made.name) as file:
        file.write(made.read_bytes())
    return out / made.name


def run(command: Sequence[str], environment: dict[str, str] | None = None) -> str:
    """What a program says; raises where it does not end well."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(environment or {})}, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode:
        raise FailedError(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-_TOLD:]}")
    return done.stdout


def _line(made: Made) -> str:
    what = f"{made.library.stat().st_size:,} bytes" if made.library else "NOT IN THE WHEEL"
    return f"{made.release!s:24} {what:>16}  {made.seconds:5.0f} s  {made.how}"


def say(line: str) -> None:
    """Tell whoever waits for it."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
