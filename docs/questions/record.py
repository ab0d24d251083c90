"""Records anew the runs that the pages in this directory look at: python docs/questions/record.py

The programs run for real, with `stepscope run`; what they write goes to `recorded/`. The text of
the pages speaks of what is seen there: read it again afterwards (`make docs` writes the output).
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor

from stepscope.metadata import RunMetadata

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
STEPSCOPE = [sys.executable, "-m", "stepscope"]
KEPT_AT = Path("/tmp/train")
"""Where programs lie whose store is kept: their lines are named so in what commands print."""
ROUNDS, RUNS_PER_ROUND = 5, 6
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # its threads wait for each other where the machine is busy
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}


def main():
    shutil.rmtree(RECORDED, ignore_errors=True)
    RECORDED.mkdir()
    with tempfile.TemporaryDirectory() as place:
        work = Path(place).resolve()
        for program in (HERE / "programs").glob("*.py"):
            shutil.copy(program, work)
        record(work, "classify", "embedded")
        record(work, "towers", "embedded")
        record(work, "batches", "embedded", fails=True)
        record(work, "optimised", "tensorflow")
        record_cluster(work)
        record_store("feed", "tensorflow")
        record_store("history", "embedded")
        sides = {"base": "2", "new": "4"}
        # In turns: what else the machine does changes from minute to minute, and must not fall on
        # one side only.
        for number in range(ROUNDS):
            for side, passes in sides.items():
                many = ["--batches", str(RUNS_PER_ROUND + 1), "--passes", passes]
                # The first two make the variables and warm up.
                run(work, "run", "--engine", "embedded", "--trace", "full", "--steps", "2:",
                    "--pb", "--out", f"{side}/round_{number}", "classify.py", *many)  # fmt: skip
        for side in sides:
            clean(work, work / side)
            run(work, "export", side, "--to", "tensorboard", "-o", RECORDED / side)
            (log,) = (RECORDED / side).iterdir()
            log.rename(log.with_name("events.out.tfevents.1700000000.example"))


def record(work, name, engine, fails=False):
    """Record a program; keep the metadata of its runs, and its graph once."""
    run(work, "run", "--engine", engine, "--pb", "--out", name, f"{name}.py", fails=fails)
    clean(work, work / name)
    for saved in (work / name).glob("run_*/run_metadata.pb"):
        target = RECORDED / name / saved.parent.name
        target.mkdir(parents=True)
        shutil.copy(saved, target)
    graphs = {path.read_bytes() for path in (work / name).glob("run_*/graph.pb")}
    assert len(graphs) == 1, f"{name}: {len(graphs)} graphs"
    (RECORDED / name / "graph.pb").write_bytes(*graphs)


def record_store(name, engine):
    """Record a program; keep its store, for what only that has: notes of the whole program."""
    shutil.rmtree(KEPT_AT, ignore_errors=True)
    KEPT_AT.mkdir()
    shutil.copy(HERE / "programs" / f"{name}.py", KEPT_AT)
    run(KEPT_AT, "run", "--engine", engine, "--out", name, f"{name}.py")
    (store,) = (KEPT_AT / name).glob("*.stepscope")
    (RECORDED / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(store, RECORDED / name / "runs-1-1.stepscope")


def record_cluster(work):
    """Steps on four servers: two as they are, one with a slow worker, one with a slow link."""
    os.environ.update(ENVIRONMENT)
    sys.path[:0] = [str(HERE.parents[1] / "tests"), str(work)]
    import cluster  # the program

    from cluster_servers import Link, Nursery, Servers

    second, since = 10**9, time.time_ns()
    clocks = {"worker:1": (5 * second, 0.0, since), "worker:2": (-2 * second, 100.0, since)}
    link = Link()
    nursery = Nursery(work)
    with Servers(nursery, clocks, {("worker:2", "ps:0"): link}, ps=1, worker=3) as servers:
        session = cluster.connect(servers.target, 3)
        for extra in (1, 1, 1500):  # the first steps on a server take longer
            cluster.train(session, extra)
        runs = [cluster.train(session), cluster.train(session), cluster.train(session, 1500)]
        link.delay_s = 0.15
        runs.append(cluster.train(session))
        session.close()
    nursery.close()
    link.close()
    for number, run in enumerate(runs, 1):
        (work / "cluster" / f"run_{number:06d}").mkdir(parents=True)
        run.save(work / "cluster" / f"run_{number:06d}" / "run_metadata.pb")
    clean(work, work / "cluster")
    shutil.copytree(work / "cluster", RECORDED / "cluster", dirs_exist_ok=True)


def clean(work, directory):
    """Remove from every run where the programs happened to lie; of stores, keep the copies."""
    for store in directory.rglob("*.stepscope"):
        store.unlink()
    for saved in directory.rglob("run_metadata.pb"):
        message = RunMetadata._message_class.FromString(saved.read_bytes())
        message.ClearField("bytes_following")
        without(message, f"{work}/")
        RunMetadata.FromString(message.SerializeToString()).save(saved)


def without(message, prefix):
    """Remove a path from every text of a message."""
    for field, value in message.ListFields():
        repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == 3
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            entries = value if repeated else [value]
            if field.message_type.GetOptions().map_entry:
                for key in value:
                    if isinstance(value[key], str):
                        value[key] = value[key].replace(prefix, "")
                continue
            for entry in entries:
                without(entry, prefix)
        elif field.type == FieldDescriptor.TYPE_STRING:
            if repeated:
                value[:] = [text.replace(prefix, "") for text in value]
            else:
                setattr(message, field.name, value.replace(prefix, ""))


def run(work, *arguments, fails=False):
    done = subprocess.run(
        [*STEPSCOPE, *map(str, arguments)],
        cwd=work,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    if (done.returncode == 0) == fails:
        raise SystemExit(f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
