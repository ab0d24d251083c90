"""`GraphFacts`: what a graph determines about its nodes, known once and shared by all its runs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepscope.cached_property import cached_property
from stepscope.metadata.memory.memory_columns import TensorColumns
from stepscope.metadata.strings import StringColumn
from stepscope.metadata.wire.labels import make_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["GraphFacts"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GraphFacts:
    """A graph's nodes as columns, one row each; `len()` is how many there are.

    `names`, `ops` (types) and `devices` are always there. `labels` are TensorFlow's timeline labels
    and `sources` the "file:line" that made a node ("" where nobody knows); either is None where
    nobody knows any. `outputs` describes the tensors that nodes put out, one row each, in order of
    `op_index`, which is the node; a shape that only a run can tell is None there, with 0 bytes.
    `outputs` is None where nobody worked that out.

    Guarantees. Facts never change, so runs and threads may share one object, and what is derived
    from them (`key`, `all_labels`) is worked out at most once per object. Runs of one graph have
    the same object; objects of equal content, in this process or another, have the same `key`.
    Text is such that UTF-8 can hold it.

    >>> facts = GraphFacts.build(name=["a", "b"], op=["Const", "Neg"], device=["/cpu:0"] * 2)
    >>> len(facts), facts.all_labels.values.tolist()
    (2, ['a = Const()', 'b = Neg()'])
    """

    names: StringColumn
    ops: StringColumn
    devices: StringColumn
    labels: StringColumn | None = None
    sources: StringColumn | None = None
    outputs: TensorColumns | None = None

    @classmethod
    def build(
        cls,
        *,
        name: Sequence[str] | StringColumn,
        op: Sequence[str] | StringColumn,
        device: Sequence[str] | StringColumn,
        label: Sequence[str] | StringColumn | None = None,
        source: Sequence[str] | StringColumn | None = None,
        outputs: TensorColumns | None = None,
    ) -> GraphFacts:
        """From plain sequences, one entry per node; `outputs` in any order."""

        def column(values: Sequence[str] | StringColumn) -> StringColumn:
            return StringColumn.of(values).writable()

        facts = cls(
            names=column(name),
            ops=column(op),
            devices=column(device),
            labels=None if label is None else column(label),
            sources=None if source is None else column(source),
            outputs=None if outputs is None else outputs.in_order(),
        )
        facts._check()
        return facts

    def _check(self) -> None:
        nodes = len(self)
        texts = {"ops": self.ops, "devices": self.devices}
        texts |= {"labels": self.labels} if self.labels is not None else {}
        texts |= {"sources": self.sources} if self.sources is not None else {}
        wrong = {column: len(text) for column, text in texts.items() if len(text) != nodes}
        if wrong:
            raise ValueError(f"{nodes} names of nodes, but columns of other lengths: {wrong}")
        outputs = self.outputs
        if outputs is None or not len(outputs):
            return
        # In order: the first and the last are the least and the greatest.
        if outputs.op_index[0] < 0 or outputs.op_index[-1] >= nodes:
            raise ValueError(f"op_index of outputs points outside the {nodes} nodes")

    def replace(self, **columns: Any) -> GraphFacts:
        """The facts with other columns, by the keywords of `build`."""
        mine = {
            "name": self.names,
            "op": self.ops,
            "device": self.devices,
            "label": self.labels,
            "source": self.sources,
            "outputs": self.outputs,
        }
        return GraphFacts.build(**{**mine, **columns})

    @classmethod
    def concat(cls, parts: Sequence[GraphFacts]) -> GraphFacts:
        """The nodes of several graphs, one graph after the other."""
        if len(parts) == 1:
            return parts[0]
        labels = sources = outputs = None
        if any(part.labels is not None for part in parts):
            labels = StringColumn.joined([part.all_labels for part in parts])
        if any(part.sources is not None for part in parts):
            sources = StringColumn.joined(
                [part.sources or StringColumn.repeated("", len(part)) for part in parts]
            )
        if any(part.outputs is not None for part in parts):
            outputs = TensorColumns.concat(
                [part.outputs or TensorColumns.empty() for part in parts], list(map(len, parts))
            )
        return cls(
            names=StringColumn.joined([part.names for part in parts]),
            ops=StringColumn.joined([part.ops for part in parts]),
            devices=StringColumn.joined([part.devices for part in parts]),
            labels=labels,
            sources=sources,
            outputs=outputs,
        )

    @cached_property
    def key(self) -> str:
        """A digest of the content, the same in every process and version of Python."""
        digest = hashlib.blake2b(digest_size=16)
        for part in self._content():
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.hexdigest()

    def _content(self) -> Iterator[bytes]:
        for column in (self.names, self.ops, self.devices, self.labels, self.sources):
            yield from _content_of(column)
        outputs = self.outputs
        if outputs is not None:
            numbers = (outputs.op_index, outputs.slot, outputs.dtype, outputs.bytes)
            for values in (*numbers, outputs.allocated_bytes):
                yield values.astype("<i8").tobytes()
            shapes = [None if s is None else tuple(map(int, s)) for s in outputs.shape]
            yield ascii(shapes).encode()
            yield from _content_of(outputs.allocators)

    @cached_property
    def all_labels(self) -> StringColumn:
        """As `labels`; made of name and op type where nobody knows any."""
        if self.labels is not None:
            return self.labels
        pairs = zip(self.names.values, self.ops.values, strict=True)
        return StringColumn.of([make_label(name, op) for name, op in pairs])

    def outputs_of(self, node: NDArray[np.int32]) -> TensorColumns:
        """The outputs of executions of these nodes; `op_index` is a position in `node`."""
        if self.outputs is None:
            return TensorColumns.empty()
        return self.outputs.per_execution(node)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<GraphFacts: {len(self)} nodes, {self.key}>"


def _content_of(column: StringColumn | None) -> Iterator[bytes]:
    """What a column says, however its table is ordered."""
    if column is None:
        yield b"none"
        return
    own = column.compact()
    yield own.codes.astype("<i4").tobytes()
    yield ascii(own.table).encode()
