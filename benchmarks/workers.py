"""Many workers, each with files of its own: joined by step, merged, and asked about.

1,000 workers and a parameter server, 100 steps of 200 ops each, is the size that must be answered
in 2 GB (`make bench-workers`). As that takes half an hour, what runs by default is a part of it, in
three sizes, to show that time grows with the input and no faster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import Result, at_most
from stepscope import _messages as pb

STEPS = int(os.environ.get("STEPSCOPE_WORKER_STEPS", "20"))
OPS = 200
WORKERS = int(os.environ.get("STEPSCOPE_WORKERS", "100"))
LIMIT_BYTES = 2e9
LIMIT_GROWTH = 1.3
BEGIN = 1_794_769_119_000_000_000
STEP_NS = 20_000_000
SERVER = "/job:ps/replica:0/task:0/device:CPU:0"


def device(worker: int) -> str:
    """The device of a worker."""
    return f"/job:worker/replica:0/task:{worker}/device:CPU:0"


def add(stats: Any, name: str, label: str, start: int, length: int, size: int = 0) -> None:
    """A row as TensorFlow writes it."""
    node = stats.node_stats.add(
        node_name=name,
        timeline_label=label,
        all_start_micros=start // 1000,
        all_start_nanos=start,
        scheduled_micros=start // 1000,
        scheduled_nanos=start,
        op_end_rel_nanos=length,
        all_end_rel_nanos=length,
        all_end_rel_micros=length // 1000,
    )
    if size:
        described = node.output.add().tensor_description
        described.dtype = 1
        described.shape.dim.add(size=size // 4)
        described.allocation_description.requested_bytes = size


def worker_run(worker: int) -> Any:
    """A worker's first step: it fetches w, computes, and makes a gradient."""
    message = pb.RunMetadataMessage()
    stats = message.step_stats.dev_stats.add(device=device(worker))
    clock = BEGIN + (worker % 7 - 3) * 1_000_000_000
    add(stats, "_SOURCE", "_SOURCE = NoOp()", clock, 500)
    label = f"[0.1MB] edge_4_w/read from {SERVER} to {device(worker)}"
    arrived = clock + 400_000 + worker % 50 * 1000
    add(stats, "RecvTensor", label, arrived // 1000 * 1000 - 300_000, 300_000, 131_072)
    start, before = arrived + 2000, "w/read_S1"
    slow = 3 if worker == 5 else 1
    for number in range(OPS - 3):
        length = 20_000 * slow + (number * 37 + worker) % 5000
        name = f"layer_{number}/MatMul"
        add(stats, name, f"{name} = MatMul({before})", start, length, 4096)
        start, before = start + length + 1000, name
    name = f"gradient_{worker}"
    add(stats, name, f"{name} = MatMul({before})", start, 30_000, 131_072)
    return message


def server_run(workers: int) -> Any:
    """The server's first step: it waits for the gradients of all."""
    message = pb.RunMetadataMessage()
    stats = message.step_stats.dev_stats.add(device=SERVER)
    add(stats, "_SOURCE", "_SOURCE = NoOp()", BEGIN, 500)
    add(stats, "w/read", "w/read = Identity(w)", BEGIN + 1000, 5000, 131_072)
    last = BEGIN
    for worker in range(workers):
        label = f"[0.1MB] edge_9_gradient_{worker} from {device(worker)} to {SERVER}"
        arrived = BEGIN + (15_500_000 if worker == 5 else 8_000_000) + worker * 1000
        last = max(last, arrived)
        add(stats, "RecvTensor", label, arrived - 200_000, 200_000, 131_072)
    inputs = ", ".join(f"gradient_{worker}_S{worker}" for worker in range(workers))
    add(stats, "sum", f"sum = AddN({inputs})", last + 10_000, 90_000, 131_072)
    return message


def write(directory: Path, task: str, message: Any, cluster: list[str]) -> None:
    """The steps of a task, as `stepscope run` would have left them."""
    directory.mkdir(parents=True)
    said = {"task": task, "cluster": cluster, "ended": True}
    (directory / "worker.json").write_text(json.dumps(said))
    nodes = list(message.step_stats.dev_stats[0].node_stats)
    for step in range(STEPS):
        place = directory / f"run_{step + 1:06d}"
        place.mkdir()
        (place / "run_metadata.pb").write_bytes(message.SerializeToString())
        for node in nodes:
            node.all_start_nanos += STEP_NS
            node.scheduled_nanos += STEP_NS
            node.all_start_micros += STEP_NS // 1000
            node.scheduled_micros += STEP_NS // 1000


def write_cluster(directory: Path, workers: int) -> None:
    """A directory per task."""
    cluster = ["ps:0", *(f"worker:{number}" for number in range(workers))]
    write(directory / "ps_0", "ps:0", server_run(workers), cluster)
    for number in range(workers):
        write(directory / f"worker_{number}", f"worker:{number}", worker_run(number), cluster)


# A process begins with the memory of the one that started it: a small one has to.
MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)
sys.stdout.buffer.write(done.stdout)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(done.returncode)
"""


def answered(command: str, directory: Path, *arguments: str) -> tuple[float, int, str]:
    """Processor seconds, bytes of memory and output of a command in a process of its own.

    Processor time, as what else the machine does falls on long commands and short ones differently.
    """
    asked = [sys.executable, "-m", "stepscope", command, str(directory), *arguments]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *asked], stdout=subprocess.PIPE, text=True, check=True
    )
    text, _, used = done.stdout.rstrip("\n").rpartition("\n")
    seconds, kilobytes = used.split()
    return float(seconds), int(kilobytes) * 1024, text


def workers(_tf: Any) -> Iterator[Result]:
    """The commands on some of the workers, on four times as many, and on all of them.

    What each further worker costs between the first two sizes is what it may cost up to the third.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sizes = sorted({max(WORKERS // 20, 10), max(WORKERS // 5, 40), max(WORKERS, 80)})
        for size in sizes:
            write_cluster(place / str(size), size)
        for command, arguments in COMMANDS.items():
            given = [place / "merged.json" if part == "OUT" else part for part in arguments]
            took = []
            for size in sizes:
                taken = answered(command, place / str(size), *map(str, given))
                took.append(taken)
                print(
                    f"  {command}, {size} workers: {taken[0]:.1f} s, {taken[1] / 1e6:.0f} MB",
                    file=sys.stderr,
                )
            name = f"{command}: {sizes[2]:,} workers x {STEPS} steps x {OPS} ops"
            (few, _, _), (some, _, _), (whole, memory, _) = took
            ratio = memory / LIMIT_BYTES
            target, met = at_most(1.0, ratio)
            yield Result(
                f"{name}, memory", memory / 1e9, LIMIT_BYTES / 1e9, ratio, target, met, "GB"
            )
            fair = some + (some - few) * (sizes[2] - sizes[1]) / (sizes[1] - sizes[0])
            target, met = at_most(LIMIT_GROWTH, whole / fair)
            yield Result(
                f"{name}, as {sizes[0]:,} to {sizes[1]:,} grew",
                whole,
                fair,
                whole / fair,
                target,
                met,
                "s",
            )


COMMANDS: dict[str, tuple[str, ...]] = {
    "network": ("--by", "pair"),
    "top": (),
    "path": (),
    "merge": ("-o", "OUT"),
}
GROUPS = (workers,)
