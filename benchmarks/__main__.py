"""`python -m benchmarks [GROUP ...]`: measure, print one table, write results.json.

A group is a function, or a module of this package with all of its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Beside TensorFlow with its defaults, whatever the tests that were run before wanted.
os.environ.pop("TF_ENABLE_ONEDNN_OPTS", None)
# What is installed has its bytecode: without it every start of a program compiles all of ours.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# NumPy's defaults as well: what names another processor than this one keeps BLAS from its kernels.
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    if os.environ.pop(_name, None):
        print(f"{_name} is not heeded: both engines run with their defaults", file=sys.stderr)


def main(wanted: list[str]) -> int:
    import numpy as np
    import tensorflow

    from benchmarks import (
        adapter,
        advice,
        analyses,
        budget,
        engine,
        memory,
        memory_tensorflow,
        overhead,
        reading,
        recorded_steps,
        scripts,
        start_up,
        timeline,
        training,
        viewer,
        whole_calls,
        workers,
    )
    from benchmarks.harness import save, table

    tf = tensorflow.compat.v1
    # Training comes before the group that gives each product one BLAS thread: that is for good.
    rooms = (
        *(
            training,
            engine,
            memory,
            adapter,
            whole_calls,
            memory_tensorflow,
            overhead,
            reading,
            recorded_steps,
            timeline,
        ),
        *(scripts, budget, recorded_steps, start_up, workers, analyses, advice, viewer),
    )
    groups = {group.__name__: group for room in rooms for group in room.GROUPS}
    modules = {room.__name__.rpartition(".")[2]: room for room in rooms}
    unknown = [name for name in wanted if name not in groups and name not in modules]
    if unknown:
        known = ", ".join([*modules, *groups])
        print(f"no benchmark group {unknown[0]!r}; there are: {known}")
        return 2
    chosen: list[str] = []
    for name in wanted:
        of_module = modules[name].GROUPS if name in modules else ()
        chosen += [group.__name__ for group in of_module] or [name]
    results = []
    for name in chosen or groups:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        results.extend(groups[name](tf))
    print(table(results))
    versions = {"numpy": np.__version__, "tensorflow": tensorflow.__version__}
    if not wanted:
        save(results, versions, Path(__file__).with_name("results.json"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
