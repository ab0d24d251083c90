"""`make fuzz`: broken files into every reader.

What has to hold for each of them: `load` gives runs that can be looked at, written and read again,
or raises our error for files; within five seconds, and within a gigabyte.

    python tests/fuzz/fuzz_readers.py [COUNT] [FIRST]
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import corpus

from stepscope.errors import StepscopeError
from stepscope.export import csv
from stepscope.metadata import RunMetadata, load

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
                counts[outcome(name, data, Path(folder))] += 1
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
