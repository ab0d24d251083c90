"""Each kind of input that the viewer shows, once: files that are there, or made in no time.

`path_of(kind, place)` gives where it is; what has to be made is made below `place`.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_RECORDED = _ROOT / "docs" / "questions" / "recorded"
_DATA = Path(__file__).parent / "data"


def embedded_training(place: Path) -> Path:
    return _RECORDED / "classify"


def session_on_tensorflow(place: Path) -> Path:
    return _RECORDED / "optimised"


def traced_function(place: Path) -> Path:
    return _unpacked("function", place)


def keras_fit(place: Path) -> Path:
    return _unpacked("keras", place)


def failed_run(place: Path) -> Path:
    """A run that divided by zero, as the embedded engine records it."""
    import numpy as np

    import stepscope
    import stepscope.tf1 as tf

    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.int32, [2], name="x")
        y = tf.add(tf.floordiv(tf.constant([1, 2]), x, name="divide"), 1, name="after")
    metadata = stepscope.RunMetadata()
    options = stepscope.RunOptions(trace_level=stepscope.RunOptions.FULL_TRACE)
    with stepscope.Session(graph=graph) as session:
        try:
            session.run(y, {x: np.array([1, 0], np.int32)}, options, metadata)
        except stepscope.errors.OpError:
            metadata.save(place / "run_metadata.pb")
    return place / "run_metadata.pb"


def out_of_memory(place: Path) -> Path:
    return _RECORDED / "batches"


def four_workers(place: Path) -> Path:
    return _RECORDED / "cluster"


def tensorflows_own(place: Path) -> Path:
    return _DATA / "mlp_adam_refvars" / "run_metadata.pb"


def chrome_trace(place: Path) -> Path:
    from stepscope.export import chrome
    from stepscope.metadata import iter_runs

    return chrome(list(iter_runs(_RECORDED / "classify")), place / "trace.json")


def two_sets(place: Path) -> Path:
    """A logdir with the event files of two programs."""
    for name in ("base", "new"):
        shutil.copytree(_RECORDED / name, place / name)
    return place


def _unpacked(name: str, place: Path) -> Path:
    target = place / f"{name}.xplane.pb"
    target.write_bytes(gzip.decompress((_DATA / "xplane" / f"{name}.xplane.pb.gz").read_bytes()))
    return target


KINDS: dict[str, Callable[[Path], Any]] = {
    kind.__name__: kind
    for kind in (
        embedded_training, session_on_tensorflow, traced_function, keras_fit, failed_run,
        out_of_memory, four_workers, tensorflows_own, chrome_trace,
    )
}  # fmt: skip


def path_of(kind: str, place: Path) -> Path:
    """Where the input of a kind is."""
    found: Path = KINDS[kind](place)
    return found
