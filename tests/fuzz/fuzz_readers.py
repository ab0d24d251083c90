"""`make fuzz`: broken files into every reader.

What has to hold for each of them: `load` gives runs that can be looked at, written and read again,
or raises our error for files; within five seconds, and within a gigabyte. Every tenth input stands
beside a whole file in a directory, which is read all the same; of every tenth, commands have to say
something, or that they cannot.

    python tests/fuzz/fuzz_readers.py [COUNT] [FIRST]
"""

from __future__ import annotations

import io
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import corpus

from stepscope.cli.arguments.command_line import run_command_line
from stepscope.errors import StepscopeError
from stepscope.export import csv
from stepscope.metadata import RunMetadata, iter_runs, load

SECONDS = 5
"""Of processor time: a busy machine is not the reader's fault."""
WAITING_SECONDS = 60
BYTES = 1 << 30
FAILURES_SHOWN = 20
DAMAGE = {"bytes of the file", "pieces of the file", "records of the file", "events of the trace"}
# In memory where there is such a place: a hundred thousand files are written.
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None


class TooSlowError(BaseException):
    """An input took longer than it may."""


def look_at(run: RunMetadata, folder: Path) -> None:
    """Use a run as a program would, and write and read it again."""
    ops = run.ops
    assert len(ops.name) == len(ops) == len(ops.output_bytes) == len(ops.label)
    allocations = run.allocations
    assert len(allocations.live()) == len(allocations)
    run.peak_bytes()
    assert isinstance(run.status.code, str)
    for loss in run.completeness.losses:
        assert loss.reason
    again = RunMetadata.FromString(run.SerializeToString())
    # Step stats keep the rows of each device together.
    assert sorted(again.ops.name) == sorted(ops.name)
    assert sorted(again.ops.start_ns) == sorted(ops.start_ns)
    repr(run)
    csv(run, folder / "ops.csv")


def outcome(name: str, data: bytes, folder: Path) -> str:
    """What happened with an input: "read", "read in part" or "refused". Raises what must not be."""
    path = folder / name
    path.write_bytes(data)
    try:
        loaded = load(path)
    except StepscopeError as error:
        if str(path) not in str(error):
            raise AssertionError("the error does not name the file") from error
        return "refused"
    finally:
        path.unlink()
    runs = loaded if isinstance(loaded, list) else [loaded]
    for run in runs:
        look_at(run, folder)
    losses = {loss.what for run in runs for loss in run.completeness.losses}
    return "read in part" if losses & DAMAGE else "read"


def beside(name: str, data: bytes, folder: Path) -> str:
    """As `outcome`, with a whole file in the same directory: that one is always read."""
    place = folder / "directory"
    place.mkdir()
    (place / f"broken_{name}").write_bytes(data)
    (place / "whole_run_metadata.pb").write_bytes(corpus.seeds()[0][1])
    try:
        runs = dict(iter_runs(place))
    finally:
        shutil.rmtree(place)
    assert len(runs["whole_run_metadata"].ops) == len(
        RunMetadata.FromString(corpus.seeds()[0][1]).ops
    )
    for run in runs.values():
        look_at(run, folder)
        assert "own" not in run.status.message, run.status.message
    losses = {loss.what for run in runs.values() for loss in run.completeness.losses}
    return "read in part, or not, beside a whole file" if losses else "read beside a whole file"


def commanded(name: str, data: bytes, folder: Path, chance: random.Random) -> str:
    """What a command says of an input: an answer, or in one line why there is none."""
    path = folder / name
    path.write_bytes(data)
    said, complained = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = said, complained
    try:
        arguments = [part.format(folder) for part in chance.choice(COMMANDS)]
        code = run_command_line([arguments[0], str(path), *arguments[1:]])
        said.flush()
        complained.flush()
    finally:
        sys.stdout, sys.stderr = before
        path.unlink()
    text = (said.buffer.getvalue() + complained.buffer.getvalue()).decode()
    assert code in (0, 2), (code, text)
    assert "error of Stepscope's own" not in text, text
    assert all(c.isprintable() or c == "\n" or "--json" in arguments for c in text), text
    return f"a command ended with {code}"


COMMANDS = (
    ("info",), ("info", "--json"), ("top",), ("top", "--by", "name"), ("top", "--by", "thread"),
    ("path",), ("parallelism",), ("placement",), ("memory",), ("oom",), ("network",), ("coverage",),
    ("account",), ("retraces",), ("top", "--csv"),
    ("timeline", "-o", "{}/out.json"), ("timeline", "--tf1", "-o", "{}/out.json"),
    ("export", "--to", "csv", "-o", "{}/out.csv"),
    ("export", "--to", "chrome", "-o", "{}/out.json"),
    ("export", "--to", "tensorboard", "-o", "{}/out"), ("merge", "-o", "{}/out.json"),
)  # fmt: skip


def tried(number: int, name: str, data: bytes, folder: Path) -> str:
    """Try one input, in the way that its number says."""
    if number % 10 == 3:
        return beside(name, data, folder)
    if number % 10 == 7:
        return commanded(name, data, folder, random.Random(number))
    return outcome(name, data, folder)


def _stop(*_: object) -> None:
    raise TooSlowError


def limit_memory() -> None:
    """No more than a gigabyte beyond what the process has already."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def work(numbers: range) -> tuple[Counter[str], float, list[str]]:
    """Try these inputs; the counts, the longest time, and the failures."""
    signal.signal(signal.SIGPROF, _stop)
    signal.signal(signal.SIGALRM, _stop)
    counts: Counter[str] = Counter()
    failures: list[str] = []
    longest = 0.0
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        for number in numbers:
            name, data = corpus.mutated(number)
            began = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.setitimer(signal.ITIMER_REAL, WAITING_SECONDS)
            try:
                counts[tried(number, name, data, Path(folder))] += 1
            except (Exception, TooSlowError):  # noqa: BLE001
                counts["FAILED"] += 1
                failures.append(f"input {number} ({name}):\n{traceback.format_exc(limit=-4)}")
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
            longest = max(longest, time.process_time() - began)
    return counts, longest, failures


def main(count: int, first: int) -> int:
    corpus.seeds()
    workers = os.cpu_count() or 1
    size = max(1, min(500, count // workers))
    parts = [range(at, min(at + size, first + count)) for at in range(first, first + count, size)]
    counts: Counter[str] = Counter()
    failures: list[str] = []
    longest = 0.0
    began = time.perf_counter()
    with multiprocessing.get_context("fork").Pool(workers, limit_memory) as pool:
        for done, (found, took, failed) in enumerate(pool.imap_unordered(work, parts), 1):
            counts += found
            longest = max(longest, took)
            failures += failed
            if done % 20 == 0:
                print(f"{counts.total():,} inputs: {dict(counts)}", flush=True)
    for text in failures[:FAILURES_SHOWN]:
        print(text)
    print(
        f"{counts.total():,} inputs in {time.perf_counter() - began:.0f} s: {dict(counts)}; "
        f"the longest took {longest:.2f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    arguments = [int(text.replace(",", "")) for text in sys.argv[1:]]
    raise SystemExit(main(*(arguments + [100_000, 0][len(arguments) :])))
