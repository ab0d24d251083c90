"""A run as a store keeps it: a row of numbers, packed columns, and parts shared with other runs.

A part is content known by its digest: the facts of a graph, its messages, its source lines, how a
run ended. Runs of one graph have the same parts. `RunEncoder` makes a `StoredRun` of a
`RunMetadata`, `decoded_run` the reverse; neither knows where it is kept.

Everything that a `RunMetadata` holds comes back: TensorFlow's fields with the same bytes on the
wire, ours with the same values. A run whose truth is a message (somebody wrote to it, or it was
read from a file) is kept as that message, its graphs as parts.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import orjson

from stepscope import _messages as pb
from stepscope.cached_property import cached_property
from stepscope.metadata.columns import OpColumns
from stepscope.metadata.logged_nodes import LoggedNodes, ended
from stepscope.metadata.outcome import Completeness, Loss, Overhead, Status
from stepscope.metadata.program_notes import CallTime
from stepscope.metadata.recording import Recording, Shared
from stepscope.metadata.run_fields import FIELDS
from stepscope.metadata.run_metadata import RunMetadata
from stepscope.metadata.stored import stored_columns as columns
from stepscope.metadata.stored import stored_log, stored_pattern
from stepscope.metadata.stored.packing import Packed, pack
from stepscope.metadata.wire import extras

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.metadata.graph_facts import GraphFacts
    from stepscope.metadata.logged_nodes import LoggedGraphs
    from stepscope.metadata.stored.stored_log import StorableLog
    from stepscope.metadata.stored.stored_pattern import StorablePattern

__all__ = ["RunEncoder", "SharedPart", "StoredRun", "decoded_run"]

_T = TypeVar("_T")
_GRAPH_LISTS: Final = ("partition_graphs", "function_graphs")
_MESSAGE: Final = "message"
_KEPT_SHARED: Final = 64
_MOST_KEPT: Final = 16_000_000
_NO_NUMBERS: Final = np.empty(0, np.uint32)
_CALL: Final = struct.Struct("<3q")
_ALIKE: Final = frozenset(
    ("recorder", "status", "completeness", "out_of_memory", "run_options", "peaks")
)
_OUTCOME: Final = [run_field for run_field in FIELDS if run_field.name in _ALIKE]
"""What runs that went alike mostly have in common, kept as one part."""


class SharedPart:
    """Content that runs share; decoded at most once, by whoever looks first.

    What was made of very much content is not kept: a run of millions of ops shares it with nobody.
    """

    __slots__ = ("__weakref__", "_lock", "_value", "content", "digest")

    def __init__(self, content: bytes, digest: bytes | None = None) -> None:
        """`digest` is that of the content, where somebody knows it."""
        self.content = content
        self.digest = digest_of(content) if digest is None else digest
        self._lock = threading.Lock()
        self._value: tuple[Callable[..., Any], Any] | None = None

    def decoded(self, decode: Callable[..., _T], *over: SharedPart) -> _T:
        """The content as `decode` makes it; kept for the next one who asks with that function.

        It is given the content, and the parts that this one is to be read with; the content tells
        which those are.
        """
        with self._lock:
            known = self._value
            if known is None or known[0] is not decode:
                known = (decode, decode(self.content, *over))
                if len(self.content) <= _MOST_KEPT:
                    self._value = known
            value: _T = known[1]
            return value


def digest_of(content: bytes) -> bytes:
    """What content is known by."""
    return hashlib.blake2b(content, digest_size=16).digest()


@dataclass(slots=True, kw_only=True)
class StoredRun:
    """One run.

    `parts` are shared content by what it is (of graphs there may be several), `columns` the packed
    columns that are this run's own. `what` is what ran (`train_step`); `status`, `started_ns`,
    `ended_ns` and `ops` are there to be looked at without decoding anything. `losses` is what
    could not be read of it.
    """

    number: int = 0
    what: str = ""
    engine: str = ""
    status: str = "OK"
    step_id: int = 0
    started_ns: int = 0
    ended_ns: int = 0
    ops: int = 0
    overhead: Overhead = field(default_factory=Overhead)
    parts: dict[str, tuple[SharedPart, ...]] = field(default_factory=dict)
    columns: dict[str, bytes] = field(default_factory=dict)
    losses: tuple[Loss, ...] = ()

    @property
    def name(self) -> str:
        """What to call it: its number, and what ran."""
        return f"run_{self.number:06d} {self.what}".rstrip()

    @property
    def call(self) -> CallTime | None:
        """When the program called it; None where that was not noted."""
        noted = self.columns.get("call", b"")
        return CallTime(*_CALL.unpack(noted)) if len(noted) == _CALL.size else None

    @property
    def graph_key(self) -> str:
        """The same for runs of the same graph, as their engine executed it."""
        executed = (*self.parts.get("graphs", ()), *self.parts.get("facts", ()))
        return " ".join(part.digest.hex() for part in executed)


# -- to a store --------------------------------------------------------------------------------


class _PackedFacts(NamedTuple):
    part: SharedPart
    place: NDArray[np.int32]


class _Late(Generic[_T]):
    """What was used of late, by keys."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, _T] = OrderedDict()

    def get(self, key: Hashable) -> _T | None:
        """What is kept under that key; None where nothing is."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: Hashable, value: _T) -> None:
        """Keep it, and let go of what was not used for longest."""
        self._kept[key] = value
        if len(self._kept) > _KEPT_SHARED:
            self._kept.popitem(last=False)


class _LateParts(_Late[SharedPart]):
    """Parts by what tells their content, those of late."""

    def of(self, key: Hashable, make: Callable[[], bytes]) -> SharedPart:
        """The part of that key, made where it is not known."""
        part = self.get(key)
        if part is None:
            part = SharedPart(make())
            self.keep(key, part)
        return part


class _LoggedHow(NamedTuple):
    """What of a logged run is in no row."""

    thread_names: Mapping[int, str]
    outputs: bool
    allocations: bool

    def content(self) -> bytes:
        """As bytes."""
        names = {str(thread): self.thread_names[thread] for thread in sorted(self.thread_names)}
        return orjson.dumps([names, self.outputs, self.allocations])

    @classmethod
    def of(cls, content: bytes) -> _LoggedHow:
        """What `content` gave."""
        names, outputs, allocations = orjson.loads(content)
        return cls({int(thread): name for thread, name in names.items()}, outputs, allocations)


class RunEncoder:
    """Makes stored runs; what runs share is encoded once. Not to be called by two threads at once.

    Facts and `Shared` parts are known again by identity: those of late, and the others no longer
    than their engine keeps them.
    """

    def __init__(self) -> None:
        self._facts: WeakKeyDictionary[GraphFacts, _PackedFacts] = WeakKeyDictionary()
        self._shared: WeakKeyDictionary[Shared[Any], tuple[SharedPart, ...]] = WeakKeyDictionary()
        self._graphs: WeakKeyDictionary[LoggedGraphs, SharedPart] = WeakKeyDictionary()
        self._small = _LateParts()
        self._alike: _Late[dict[str, tuple[SharedPart, ...]]] = _Late()
        """By what runs have in common (`RunNumbers.like`), all that they share."""
        self._late: OrderedDict[Shared[Any], None] = OrderedDict()
        """An engine may keep none between two runs. It was made: what it was made of is let go."""

    def encode(
        self, metadata: RunMetadata, what: str = "", graph: SharedPart | None = None
    ) -> StoredRun:
        """A run, with what ran and the graph as its user built it."""
        logged = metadata.logged()
        numbers = logged.numbers() if logged is not None else None
        parts = self._alike.get(numbers.like) if numbers is not None else None
        if numbers is None or parts is None:
            run = self._encode_whole(metadata, what)
            if numbers is not None:
                self._alike.keep(numbers.like, dict(run.parts))
        else:
            run = StoredRun(
                what=what,
                engine=numbers.engine,
                step_id=numbers.step_id,
                started_ns=numbers.started_ns,
                ended_ns=numbers.ended_ns,
                ops=numbers.ops,
                overhead=numbers.overhead,
                parts=dict(parts),
                columns=dict(numbers.columns),
            )
            for name, shared in numbers.parts.items():
                self._add_made(run, name, shared, lambda content: [content])
            _note_call(run, numbers.call)
        if graph is not None:
            run.parts["graph"] = (graph,)
        return run

    def _encode_whole(self, metadata: RunMetadata, what: str) -> StoredRun:
        recording = metadata.recorded()
        run = StoredRun(
            what=what,
            engine=metadata.engine,
            status=metadata.status.code,
            step_id=metadata.step_id,
        )
        if recording is None:
            self._encode_message(metadata, run)
        else:
            self._encode_recording(recording, run)
        # Last: whoever asks for it waited for all of the above.
        run.overhead = metadata.overhead
        return run

    def _encode_message(self, metadata: RunMetadata, run: StoredRun) -> None:
        message = pb.RunMetadataMessage.FromString(metadata.SerializeToString())
        _note_times(metadata.ops, run)
        for name in _GRAPH_LISTS:
            self._add(run, name, [_bytes_of(graph) for graph in getattr(message, name)])
            message.ClearField(name)
        self._add(run, _MESSAGE, [_bytes_of(message)])

    def _encode_recording(self, recording: Recording, run: StoredRun) -> None:
        log = recording.log
        told = False
        if log is not None:
            log = replace(log, allocations=log.allocations and log.nodes.tells_allocations)
            self._encode_log(log, run)
            told = log.allocations
        elif recording.pattern is not None:
            pattern = recording.pattern()
            self._encode_pattern(pattern, run)
            told = pattern.allocations is not None
        else:
            ops = recording.ops() if recording.ops is not None else OpColumns.empty()
            self._encode_ops(ops, run)
        for name in ("allocations", "allocation_log"):
            produce = getattr(recording, name)
            if produce is not None and not (told and name == "allocations"):
                self._add_halves(run, name, columns.pack_allocations(produce()))
        for name in _GRAPH_LISTS:
            self._add_made(run, name, getattr(recording, name), _all_bytes)
        self._add_made(run, "cost_graph", recording.cost_graph, lambda graph: [_bytes_of(graph)])
        self._add_made(run, "sources", recording.sources, _sources_bytes)
        self._add_made(run, "placements", recording.placements, _placements_bytes)
        run.parts["outcome"] = (self._outcome_part(recording),)
        _note_call(run, recording.call)

    def _encode_ops(self, ops: OpColumns, run: StoredRun) -> None:
        if not len(ops):
            return
        _note_times(ops, run)
        node = self._add_facts(ops, run)
        self._add_halves(run, "times", columns.pack_times(ops, node))
        if len(ops.tensors):
            self._add_halves(run, "tensors", columns.pack_tensors(ops.tensors, node))
        if len(ops.memory):
            memory = columns.pack_memory(ops.memory, node, ops.start_ns)
            self._add_halves(run, "memory", memory)

    def _add_facts(self, ops: OpColumns, run: StoredRun) -> NDArray[np.int32]:
        """Add what the graph determines; the node of each row, as it is there."""
        facts = self._facts.get(ops.facts)
        if facts is None:
            content, place = columns.pack_facts(ops.facts)
            facts = _PackedFacts(SharedPart(content), place)
            self._facts[ops.facts] = facts
        run.parts["facts"] = (facts.part,)
        return facts.place[ops.node]

    def _encode_pattern(self, pattern: StorablePattern, run: StoredRun) -> None:
        """A run as its readings, over what it has in common with others."""
        ops, readings = pattern.ops(), pattern.readings
        allocations = None if pattern.allocations is None else pattern.allocations()
        times = readings.all_times[pattern.order]
        run.ops = len(ops)
        run.started_ns = int(times[int(ops.start_ns.min()) - 1])
        run.ended_ns = int(times[int(ops.end_ns.max()) - 1])
        node = self._add_facts(ops, run)
        content = stored_pattern.pack_pattern(ops.facts, ops, node, allocations, pattern.order)
        standing = stored_pattern.pack_standing(readings.standing)
        run.parts |= {"pattern": (SharedPart(content),), "standing": (SharedPart(standing),)}
        run.columns["readings"] = stored_pattern.pack_readings(readings)

    def _encode_log(self, log: StorableLog, run: StoredRun) -> None:
        """A run as it was logged."""
        nodes = log.nodes
        rows = nodes.log.rows[ended(nodes.log.rows, failed=run.status != "OK")]
        if len(rows):
            run.ops = len(rows)
            run.started_ns = int(rows["start"].min())
            run.ended_ns = int(max(rows["end"].max(), rows["start"].max()))
        graphs = self._graphs.get(nodes.graphs)
        if graphs is None:
            graphs = self._graphs[nodes.graphs] = SharedPart(stored_log.pack_graphs(nodes.graphs))
        numbers = stored_log.described_numbers(nodes) if log.outputs else _NO_NUMBERS
        described = self._small.of(
            numbers.tobytes(), lambda: stored_log.pack_descriptions(nodes, numbers)
        )
        how = _LoggedHow(log.thread_names, outputs=log.outputs, allocations=log.allocations)
        content = how.content()
        run.parts |= {
            "graphs": (graphs,),
            "descriptions": (described,),
            "logged": (self._small.of(content, lambda: content),),
        }
        run.columns["log"] = stored_log.pack_log(nodes.log)

    def _outcome_part(self, recording: Recording) -> SharedPart:
        """How the run went: that is said alike of many."""
        found = recording.completeness
        completeness = found() if callable(found) else found
        options = recording.run_options
        said = None if options is None else options.SerializeToString()
        odd = (recording.peak_bytes, recording.session_metadata, recording.out_of_memory)
        if not recording.status.ok or any(one is not None for one in odd):
            return SharedPart(_outcome_bytes(recording))
        return self._small.of(
            (recording.recorder, completeness.losses, said),
            lambda: _outcome_bytes(recording),
        )

    def _add_made(
        self,
        run: StoredRun,
        name: str,
        produce: Callable[[], Any] | None,
        content: Callable[[Any], list[bytes]],
    ) -> None:
        """Add what a callable of the recording makes; of a shared one, what it made before."""
        if produce is None:
            return
        if not isinstance(produce, Shared):
            self._add(run, name, content(produce()))
            return
        parts = self._shared.get(produce)
        if parts is None:
            parts = self._shared[produce] = tuple(map(SharedPart, content(produce())))
        self._late[produce] = None
        self._late.move_to_end(produce)
        if len(self._late) > _KEPT_SHARED:
            self._late.popitem(last=False)
        if parts:
            run.parts[name] = parts

    @staticmethod
    def _add(run: StoredRun, name: str, contents: Sequence[bytes]) -> None:
        if contents:
            run.parts[name] = tuple(map(SharedPart, contents))

    @staticmethod
    def _add_halves(run: StoredRun, name: str, halves: columns.Halves) -> None:
        run.parts[name] = (SharedPart(halves.shared),)
        run.columns[name] = halves.own


def _note_call(run: StoredRun, call: CallTime | None) -> None:
    if call is not None:
        run.columns["call"] = _CALL.pack(*call)
        if not run.ops:
            run.started_ns, run.ended_ns = call.started_ns, call.ended_ns


def _note_times(ops: OpColumns, run: StoredRun) -> None:
    if len(ops):
        run.ops = len(ops)
        run.started_ns = int(ops.start_ns.min())
        run.ended_ns = int(ops.end_ns.max())


def _bytes_of(message: Any) -> bytes:
    """Always the same bytes for the same content, so that it is kept once."""
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def _all_bytes(messages: Sequence[Any]) -> list[bytes]:
    return [_bytes_of(message) for message in messages]


def _sources_bytes(sources: Mapping[str, str]) -> list[bytes]:
    return [pack([list(sources), list(sources.values())])] if sources else []


def _placements_bytes(placements: Sequence[Any]) -> list[bytes]:
    message = pb.RunMetadataMessage()
    extras.encode_placements(placements, message)
    return [_bytes_of(message)] if len(message.placements) else []


def _outcome_bytes(recording: Recording) -> bytes:
    """How the run went, for which runs that went well mostly have the same bytes."""
    message = pb.RunMetadataMessage()
    for part in _OUTCOME:
        if part.is_in(recording):
            part.encode(part.of(recording), message)
    if recording.session_metadata is not None:
        data = recording.session_metadata.SerializeToString()
        message.session_metadata.ParseFromString(data)
        message.session_metadata.SetInParent()
    return _bytes_of(message)


# -- from a store ------------------------------------------------------------------------------


def decoded_run(run: StoredRun) -> RunMetadata:
    """The run; columns and messages are decoded when somebody looks at them."""
    if _MESSAGE in run.parts:
        return _from_message(run)
    metadata = RunMetadata()
    metadata.record(lambda: _recording(run))
    return metadata


def _from_message(run: StoredRun) -> RunMetadata:
    from stepscope.metadata.readers import run_metadata_pb

    (content,) = run.parts[_MESSAGE]
    message = pb.RunMetadataMessage()
    for name in _GRAPH_LISTS:
        for part in run.parts.get(name, ()):
            getattr(message, name).add().ParseFromString(part.content)
    if run.losses:
        extras.encode_completeness(Completeness(run.losses), message)
    # Of messages one after the other, fields that are repeated are joined.
    data = message.SerializeToString() + content.content
    return run_metadata_pb.decode(data, run.name) or RunMetadata.FromString(data)


def _outcome(content: bytes) -> dict[str, Any]:
    """How a run went, as a `Recording` has it."""
    message = pb.RunMetadataMessage.FromString(content)
    found: dict[str, Any] = {part.at: part.decode(message) for part in _OUTCOME}
    if message.HasField("session_metadata"):
        found["session_metadata"] = message.session_metadata
    return found


class _Content:
    """A message by its bytes, for whoever copies it."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def SerializeToString(self, **_: Any) -> bytes:
        return self._content


def _recording(run: StoredRun) -> Recording:
    parts = {name: found[0] for name, found in run.parts.items()}
    if "outcome" in parts:
        ended = parts["outcome"].decoded(_outcome)
    else:
        ended = {"status": _status_alone(run), "completeness": Completeness(), "peak_bytes": {}}

    whole: _LoggedParts | _PatternParts | None = None
    if "log" in run.columns and parts.keys() >= _LoggedParts.names:
        whole = _LoggedParts(run, parts)
    elif "readings" in run.columns and parts.keys() >= _PatternParts.names:
        whole = _PatternParts(run, parts)

    def allocations(name: str) -> Callable[[], Any] | None:
        if name == "allocations" and whole is not None and whole.has_allocations:
            return whole.allocations
        if name not in run.columns or name not in parts:
            return None
        return lambda: columns.unpack_allocations(
            parts[name].decoded(columns.unpack_shared_allocations), run.columns[name]
        )

    def graphs(name: str) -> Callable[[], Any] | None:
        found = run.parts.get(name)
        return None if found is None else lambda: [_Content(part.content) for part in found]

    told = {
        **ended,
        "completeness": Completeness((*ended["completeness"].losses, *run.losses)),
        "peak_bytes": lambda: ended["peak_bytes"],
    }
    return Recording(
        engine=run.engine,
        step_id=run.step_id,
        overhead=run.overhead,
        ops=whole.ops if whole is not None else lambda: _ops(run, parts),
        allocations=allocations("allocations"),
        allocation_log=allocations("allocation_log"),
        partition_graphs=graphs("partition_graphs"),
        function_graphs=graphs("function_graphs"),
        cost_graph=(
            (lambda: _Content(parts["cost_graph"].content)) if "cost_graph" in parts else None
        ),
        placements=lambda: (
            parts["placements"].decoded(_placements) if "placements" in parts else ()
        ),
        sources=lambda: parts["sources"].decoded(_sources) if "sources" in parts else {},
        call=run.call,
        **told,
    )


class _LoggedParts:
    """A run that is stored as it was logged."""

    names: Final = {"graphs", "descriptions", "logged"}

    def __init__(self, run: StoredRun, parts: Mapping[str, SharedPart]) -> None:
        self._run = run
        self._parts = parts
        self._how = parts["logged"].decoded(_LoggedHow.of)
        self.has_allocations = self._how.allocations

    @cached_property
    def _nodes(self) -> LoggedNodes:
        return LoggedNodes(
            stored_log.unpack_log(self._run.columns["log"]),
            self._parts["graphs"].decoded(stored_log.unpack_graphs),
            self._parts["descriptions"].decoded(stored_log.unpack_descriptions),
        )

    @cached_property
    def _columns(self) -> OpColumns:
        return self._nodes.columns(
            self._run.step_id, self._how.thread_names,
            failed=self._run.status != "OK", outputs=self._how.outputs,
        )  # fmt: skip

    def ops(self) -> OpColumns:
        """Its ops."""
        return self._columns

    def allocations(self) -> Any:
        """Its allocations, as its log tells them."""
        return self._nodes.allocations(self._columns, self._run.step_id)


class _PatternParts:
    """A run that is stored as readings over a pattern."""

    names: Final = {"facts", "pattern", "standing"}

    def __init__(self, run: StoredRun, parts: Mapping[str, SharedPart]) -> None:
        self._run = run
        self._parts = parts

    @cached_property
    def _pattern(self) -> stored_pattern.Pattern:
        return self._parts["pattern"].decoded(_pattern_of, self._parts["facts"])

    @cached_property
    def _readings(self) -> stored_pattern.Readings:
        standing = self._parts["standing"].decoded(stored_pattern.unpack_standing)
        return stored_pattern.unpack_readings(self._run.columns["readings"], standing)

    def ops(self) -> OpColumns:
        """Its ops."""
        return self._pattern.ops(self._readings, self._run.step_id)

    @property
    def has_allocations(self) -> bool:
        """Whether they were recorded."""
        return self._pattern.has_allocations

    def allocations(self) -> Any:
        """Its allocations."""
        return self._pattern.allocations(self._readings)


def _pattern_of(content: bytes, facts: SharedPart) -> stored_pattern.Pattern:
    return stored_pattern.unpack_pattern(content, facts.decoded(columns.unpack_facts))


def _status_alone(run: StoredRun) -> Status:
    """How the run ended, where the part that says more is damaged."""
    return Status(run.status, "the part of the store that says more of how it ended is damaged")


def _ops(run: StoredRun, parts: Mapping[str, SharedPart]) -> OpColumns:
    own = run.columns
    if "facts" not in parts or "times" not in own or "times" not in parts:
        return OpColumns.empty()
    facts = parts["facts"].decoded(columns.unpack_facts)
    times = columns.unpack_times(parts["times"].content, own["times"])
    tensors = memory = None
    if "tensors" in own and "tensors" in parts:
        shared = parts["tensors"].decoded(columns.unpack_shared_tensors)
        tensors = columns.unpack_tensors(shared, own["tensors"], times.node)
    if "memory" in own and "memory" in parts:
        held = parts["memory"].decoded(columns.unpack_shared_memory)
        start = times.columns["start_ns"]
        memory = columns.unpack_memory(held, own["memory"], times.node, start)
    return OpColumns.over(facts, **times.columns, tensors=tensors, memory=memory)


def _placements(content: bytes) -> tuple[Any, ...]:
    return extras.decode_placements(pb.RunMetadataMessage.FromString(content))


def _sources(content: bytes) -> dict[str, str]:
    packed = Packed(content)
    return dict(zip(packed.strings(), packed.strings(), strict=True))
