"""Notes of what the stages of tf.data's pipelines did while a script took elements of them.

To tune pipelines, TensorFlow counts for each iterator what its stages do: elements put out, time
spent in a stage itself (its function included, its inputs not), elements in its buffer. After a
call that took elements the counts are asked for (some 6 us), at most every `_EVERY_NS`, and kept as
they are. What they mean is worked out when a note of them is written: as the iterator goes, now and
then while it lives, and when the recording ends.

Which lines made the stages is known from the datasets: each keeps the line that it was made in. The
pipeline that runs is another one, as TensorFlow fuses stages and adds some; the two are laid beside
each other by what their stages are.

An iterator in the graph of a session, and a dataset that a function iterates over inside, cannot be
asked for counts: of these the stages and their lines are noted, and why there are no counts.

What is noted (`stepscope.metadata.program_notes`, kind "input"; it lasts from the iterator's making
to the last counts):

    where    the line that made the iterator
    details  `pipeline`: the iterator's number; `taken_by`: how often by each function, "" is eager
             code of the main thread, which waited for them for `waited_ns`, for the first for
             `first_waited_ns`; `stages`: of each `kind` (map, batch, ...), `name`
             (TensorFlow's), `inputs` (places in this list), `line`, `function` and `defined`
             (its line), `python` (that calls Python), `parallelism`,
             `buffer`, `tuned` (TensorFlow chooses these), `bytes` put out in all, `ratio` (so
             many elements of its input make one; 0 where that differs), `nested` (made anew
             for each element of the stage that it is an input of); then columns over time:
             `moments`, `cpu_ns` (of the whole process), and, by stage, `elements`, `own_ns`,
             `buffered`; `cores`: of the machine; `problem`: why there are no counts;
             `in_graph`: who takes the elements is told by runs alone
"""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from stepscope.adapters.tensorflow import versions
from stepscope.adapters.tensorflow.capture import op_calls
from stepscope.adapters.tensorflow.capture.source_lines import innermost_of_user
from stepscope.adapters.tensorflow.script.cost import ScriptCost
from stepscope.metadata.program_notes import INPUT, Note

__all__ = ["ScriptPipelines"]

_EVERY_NS: Final = 20_000_000
_FIRST: Final = 3
_MOST: Final = 96
"""So many counts of an iterator are kept; beyond, every second one goes."""
_FIRST_NOTE_NS: Final = 2_000_000_000
"""A living pipeline is noted after this time, and again each time after twice as long."""
_LINE: Final = "_stepscope_line"
_KINDS: Final = {
    "tensor_slice": "from_tensor_slices",
    "tensor": "from_tensors",
    "from_tensor": "from_tensors",
    "finite_take": "take",
    "empty_take": "take",
    "finite_skip": "skip",
    "finite_repeat": "repeat",
    "forever_repeat": "repeat",
    "empty_repeat": "repeat",
    "generator": "from_generator",
    "memory_cache": "cache",
    "memory_cache_impl": "cache",
    "file_cache": "cache",
    "shuffle_and_repeat": "shuffle",
    "tfrecord": "TFRecordDataset",
    "text_line": "TextLineDataset",
    "fixed_length_record": "FixedLengthRecordDataset",
    "restructured": "",
    "options": "",
    "variant": "",
    "finalize": "",
    "model": "",
    "root": "",
    "max_intra_op_parallelism": "",
    "private_thread_pool": "",
}
"""What people call a stage; "" is none of the program's."""
_FUSED: Final = {
    "map_and_batch": ("batch", "map"),
    "map_and_filter": ("filter", "map"),
}


IN_SESSION: Final = (
    "its iterator is in the graph of a Session, which TensorFlow gives no counts of: iterate over "
    "the same dataset in eager code (`for element in dataset`) under `stepscope run` to have them"
)
IN_FUNCTION: Final = (
    "a tf.function iterates over it inside, where TensorFlow gives no counts: iterate over it "
    "outside (`for element in dataset: step(element)`), or hand the function an iterator, to have "
    "them"
)
_PYTHON: Final = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})


class _Made(NamedTuple):
    """A stage as the program made it."""

    kind: str
    line: str
    function: str
    defined: str
    python: bool = False
    buffer: int = 0
    inside: tuple[_Made, ...] = ()
    """Stages that its function makes, the last first."""


class ScriptPipelines:
    """Notes what the stages of tf.data's pipelines did. One for a script; from any thread."""

    def __init__(self, note: Callable[[Note], None], cost: ScriptCost) -> None:
        """`note` is given each note, `cost` what it took to make them."""
        self._note = note
        self._cost = cost
        self._numbers = itertools.count()
        self._alive: dict[int, _Pipeline] = {}
        self._made_in: WeakKeyDictionary[Any, list[_Made]] = WeakKeyDictionary()
        """By the graph of a function the datasets that it makes, in the order of their making."""
        self._lock = threading.Lock()

    def dataset_made(self, dataset: Any) -> None:
        """Keep the line that a dataset is made in."""
        with self._cost.ours(), suppress(Exception):  # the script is not to fail for being watched
            line = innermost_of_user(versions.lines_of_stack())
            object.__setattr__(dataset, _LINE, line)
            if not versions.tensorflow().executing_eagerly():
                graph = versions.tensorflow().compat.v1.get_default_graph()
                self._made_in.setdefault(graph, []).append(self._made(dataset))

    def iterator_made(self, iterator: Any, dataset: Any) -> None:
        """Follow an iterator, which eager code has made."""
        with self._cost.ours(), suppress(Exception):
            where = innermost_of_user(versions.lines_of_stack())
            pipeline = _Pipeline(next(self._numbers), where, self._stages(dataset))
            with self._lock:
                self._alive[pipeline.number] = pipeline
            iterator._stepscope_pipeline = pipeline
            weakref.finalize(iterator, self._gone, pipeline).atexit = False

    def iterated_in_graph(self, dataset: Any, problem: str) -> None:
        """Note the stages of a dataset whose elements are taken in a graph."""
        with self._cost.ours(), suppress(Exception):
            where = innermost_of_user(versions.lines_of_stack())
            pipeline = _Pipeline(next(self._numbers), where, self._stages(dataset), problem)
            with self._lock:
                self._alive[pipeline.number] = pipeline
            self._write(pipeline)  # again at the end, for how long it was there

    def _stages(self, dataset: Any) -> list[_Made]:
        """The stages that the program made, the last of the pipeline first."""
        found: list[_Made] = []
        waiting = [dataset]
        while waiting:
            stage = waiting.pop()
            if type(stage).__name__ == "DatasetV1Adapter":
                stage = stage._dataset  # TensorFlow 1's datasets are another's in its clothes
            made = self._made(stage)
            if made.kind:
                found.append(made)
            waiting += reversed(list(stage._inputs()))
        return found

    def _made(self, stage: Any) -> _Made:
        function, defined, graph = _function_of(stage)
        python = graph is not None and any(op.type in _PYTHON for op in graph.get_operations())
        inside = tuple(reversed(self._made_in.get(graph, []))) if graph is not None else ()
        kind, line = _kind(type(stage).__name__), getattr(stage, _LINE, "")
        if kind == "from_generator":
            python = True
        return _Made(kind, line, function, defined, python, _buffer_of(stage), inside)

    def taken(self, iterator: Any, by: str, waited_ns: int = 0, *, ended: bool = False) -> None:
        """A function, or eager code (""), took elements; the thread waited so long for them.

        Or it found the iterator at its end.
        """
        pipeline: _Pipeline | None = getattr(iterator, "_stepscope_pipeline", None)
        if pipeline is None:
            return
        if ended:
            with self._cost.ours():
                pipeline.look(iterator._iterator_resource, time.time_ns())
            return
        if not pipeline.taken_by:
            pipeline.first_waited_ns = waited_ns
        pipeline.taken_by[by] = pipeline.taken_by.get(by, 0) + 1
        pipeline.waited_ns += waited_ns
        now = time.time_ns()
        if now < pipeline.due_ns:
            return
        with self._cost.ours():
            pipeline.look(iterator._iterator_resource, now)
            if now > pipeline.noted_until_ns:
                pipeline.noted_until_ns = 2 * now - pipeline.made_ns
                self._write(pipeline)

    def close(self) -> None:
        """The recording ends: note what there is."""
        with self._lock:
            alive = list(self._alive.values())
            self._alive.clear()
        for pipeline in alive:
            self._write(pipeline)

    def _gone(self, pipeline: _Pipeline) -> None:
        with self._lock:
            known = self._alive.pop(pipeline.number, None)
        if known is not None:
            with self._cost.ours():
                self._write(pipeline)

    def _write(self, pipeline: _Pipeline) -> None:
        if not pipeline.taken_by and not pipeline.in_graph:
            return
        try:
            details = pipeline.details()
        except Exception as error:  # noqa: BLE001 - as above
            details = {"pipeline": pipeline.number, "problem": repr(error)}
        self._note(
            Note(
                INPUT, pipeline.made_ns, pipeline.looked_ns or time.time_ns(),
                threading.get_native_id(), "tf.data", pipeline.where, details,
            )
        )  # fmt: skip


class _Pipeline:
    """What is known of an iterator; it does not keep it alive."""

    def __init__(self, number: int, where: str, made: list[_Made], problem: str = "") -> None:
        """`problem` says of one in a graph why it cannot be looked at."""
        self.number = number
        self.in_graph = bool(problem)
        self.where = where
        self.made_ns = time.time_ns()
        self.due_ns = 0
        self.looked_ns = 0
        self.noted_until_ns = self.made_ns + _FIRST_NOTE_NS
        self.taken_by: dict[str, int] = {}
        self.waited_ns = 0
        self.first_waited_ns = 0
        self._made = made
        self._problem = problem
        self._every_ns = _EVERY_NS
        self._models: list[tuple[int, int, bytes]] = []

    def look(self, resource: Any, now: int) -> None:
        """Keep what TensorFlow has counted until now."""
        # The first ones are looked at each: filling buffers happens there.
        self.due_ns = now + self._every_ns if len(self._models) >= _FIRST else 0
        if self._problem:
            return
        heard = op_calls.use(None)  # it is no op of the script's
        try:
            model = versions.iterator_model(resource)
            self._models.append((now, time.process_time_ns(), model))
        except Exception as error:  # noqa: BLE001 - whatever TensorFlow raises
            self._problem = str(error).partition("\n")[0]
            return
        finally:
            op_calls.use(heard)
        self.looked_ns = now
        if len(self._models) > _MOST:
            self._models[_FIRST:] = self._models[_FIRST + 1 :: 2]
            self._every_ns *= 2

    def details(self) -> dict[str, Any]:
        """The details of a note."""
        found: dict[str, Any] = {
            "pipeline": self.number,
            "taken_by": dict(self.taken_by),
            "waited_ns": self.waited_ns,
            "first_waited_ns": self.first_waited_ns,
        }
        if self._problem:
            found["problem"] = self._problem
        if self.in_graph:
            found["in_graph"] = True
        counts = _Counts([(now, versions.model_nodes(model)) for now, _, model in self._models])
        found["cores"] = len(os.sched_getaffinity(0))
        columns = counts.columns(self._made)
        found["cpu_ns"] = [cpu for _, cpu, _ in self._models[: len(columns["moments"])]]
        return {**found, **columns}


# -- stages ------------------------------------------------------------------------------------


def _kind(name: str) -> str:
    """What a stage is called: "map" of `ParallelMapV2`, `_MapDataset` and `MapDataset`.

    >>> _kind("_ParallelInterleaveDataset"), _kind("BatchV2"), _kind("TFRecordDatasetV2")
    ('interleave', 'batch', 'TFRecordDataset')
    >>> _kind("ParallelInterleaveV4[4]"), _kind("_OptionsDataset")
    ('interleave', '')
    """
    plain = re.sub(r"\[.*|V\d+\Z", "", name).strip("_")
    plain = re.sub(r"(V\d+)?(Dataset)?(V\d+)?\Z", "", plain).removeprefix("Parallel")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", plain).lower()
    return _KINDS.get(words, words)


def _buffer_of(stage: Any) -> int:
    """How many elements a stage was told to hold; 0 where it holds none, or TensorFlow chooses."""
    size = getattr(stage, "_buffer_size", None)
    try:
        return max(0, int(size.numpy())) if size is not None else 0
    except Exception:  # noqa: BLE001 - of a dataset that is made in a graph
        return 0


def _function_of(stage: Any) -> tuple[str, str, Any]:
    """The name of a stage's function, the line that it is written in, and its graph."""
    functions = stage._functions()
    function = getattr(functions[0], "_func", None) if functions else None
    code = getattr(function, "__code__", None)
    if function is None or code is None:
        return "", "", None
    graph = getattr(getattr(functions[0], "function", None), "graph", None)
    return str(function.__name__), f"{code.co_filename}:{code.co_firstlineno}", graph


def beside(made: Sequence[str], runs: Sequence[str]) -> list[tuple[int, int]]:
    """Which stage that was made is which that runs: pairs of places, as many as there can be.

    Both are in the order of the pipeline. What runs may stand for several that were made.

    >>> beside(["prefetch", "batch", "map", "range"], ["prefetch", "map_and_batch", "range"])
    [(0, 0), (1, 1), (2, 1), (3, 2)]
    >>> beside(["batch", "map"], ["prefetch", "batch", "map"])
    [(0, 1), (1, 2)]
    """
    parts = [(part, at) for at, kind in enumerate(runs) for part in _FUSED.get(kind, (kind,))]
    most = [[0] * (len(parts) + 1) for _ in range(len(made) + 1)]
    for i in reversed(range(len(made))):
        for j in reversed(range(len(parts))):
            same = made[i] == parts[j][0]
            most[i][j] = max(most[i + 1][j], most[i][j + 1], (1 + most[i + 1][j + 1]) * same)
    found, i, j = [], 0, 0
    while i < len(made) and j < len(parts):
        if made[i] == parts[j][0] and most[i][j] == 1 + most[i + 1][j + 1]:
            found.append((i, parts[j][1]))
            i, j = i + 1, j + 1
        elif most[i + 1][j] >= most[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


# -- counts ------------------------------------------------------------------------------------


_Models = list[tuple[int, list[versions.ModelNode]]]


def _while_whole(models: _Models) -> _Models:
    """Without the last counts of an iterator at its end, whose stages are gone with what they did.

    They stay where there are no others to tell by.
    """
    if len(models) <= _FIRST or len(models[-1][1]) >= len(models[-2][1]):
        return models
    return models[:-1]


class _Counts:
    """The counts of an iterator over time, by stage.

    Iterators that a stage makes anew for each of its elements come and go. They are one stage by
    where they stand, and what all of them did is added up; of one that is gone, what was counted
    last stays.
    """

    def __init__(self, models: _Models) -> None:
        self._models = _while_whole(models)
        self._places: dict[str, int] = {}
        self._nodes: list[versions.ModelNode] = []
        self._nested: list[bool] = []
        self._inputs: list[set[int]] = []
        self._by_id: dict[int, int] = {}

    def columns(self, made: list[_Made]) -> dict[str, Any]:
        """What the details of a note say of stages and counts."""
        if not self._models:
            stages = [{**stage._asdict(), "inside": []} for stage in made]
            return {"stages": stages, "moments": []}
        last: dict[int, versions.ModelNode] = {}
        rows = []
        for _, nodes in self._models:
            self._place(nodes)
            last.update((node.id, node) for node in nodes)
            size = len(self._nodes)
            sums = [[0] * size for _ in range(3)]
            now = {node.id for node in nodes}
            for node in last.values():
                at = self._by_id[node.id]
                sums[0][at] += node.elements
                sums[1][at] += node.own_ns
                sums[2][at] += node.buffered if node.id in now else 0
            rows.append(sums)
        size = len(self._nodes)
        padded = [[[*part, *[0] * (size - len(part))] for part in row] for row in rows]
        return {
            "stages": self._stages(made),
            "moments": [moment for moment, _ in self._models],
            "elements": [row[0] for row in padded],
            "own_ns": [row[1] for row in padded],
            "buffered": [row[2] for row in padded],
        }

    def _place(self, nodes: list[versions.ModelNode]) -> None:
        by_id = {node.id: node for node in nodes}

        def visit(node: versions.ModelNode, path: str, nested: bool) -> int:
            at = self._places.get(path)
            if at is None:
                at = self._places[path] = len(self._nodes)
                self._nodes.append(node)
                self._nested.append(nested)
                self._inputs.append(set())
            self._nodes[at] = node
            self._by_id[node.id] = at
            several = _kind(node.name) in ("interleave", "flat_map")
            for place, number in enumerate(node.inputs):
                if number in by_id:
                    inner = several and place > 0
                    child = by_id[number]
                    step = f"{'*' if inner else place}{child.name}"
                    self._inputs[at].add(visit(child, f"{path}/{step}", nested or inner))
            return at

        if nodes:
            visit(nodes[0], nodes[0].name, False)

    def _stages(self, made: list[_Made]) -> list[dict[str, Any]]:
        kinds = [_kind(node.name) for node in self._nodes]
        order = self._in_order()
        plain = [place for place in order if not self._nested[place]]
        names: dict[int, _Made] = {}
        for of_made, at in beside([stage.kind for stage in made], [kinds[p] for p in plain]):
            stage = made[of_made]
            # A fused stage is named by the function in it, which is what takes time.
            if plain[at] not in names or stage.function:
                names[plain[at]] = stage
        self._name_inside(plain, names, kinds)
        found = []
        for place, node in enumerate(self._nodes):
            stage = names.get(place, _Made(kinds[place], "", "", ""))
            found.append(
                {
                    "kind": stage.kind, "name": node.name, "inputs": sorted(self._inputs[place]),
                    "line": stage.line, "function": stage.function, "defined": stage.defined,
                    "python": stage.python, "bytes": node.bytes,
                    "parallelism": node.parallelism, "buffer": node.buffer or stage.buffer,
                    "tuned": node.tuned, "ratio": node.ratio, "nested": self._nested[place],
                }
            )  # fmt: skip
        return found

    def _name_inside(self, plain: list[int], names: dict[int, _Made], kinds: list[str]) -> None:
        """Name what functions of stages made, as far as it is known."""
        for place in plain:
            if place not in names:
                continue
            first = [number for number in self._inputs[place] if self._nested[number]]
            inner = [number for start in sorted(first) for number in self._in_order(start)]
            made = names[place].inside
            for of_made, at in beside([s.kind for s in made], [kinds[p] for p in inner]):
                names[inner[at]] = made[of_made]

    def _in_order(self, start: int = 0) -> list[int]:
        """The stages from one, the last of the pipeline, to the first, branch by branch."""
        found, waiting = [], [start]
        while waiting:
            place = waiting.pop()
            found.append(place)
            waiting += sorted(self._inputs[place], reverse=True)
        return found
