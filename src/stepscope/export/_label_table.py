"""Timeline labels, each taken apart once.

A program runs the same graph again and again, so the labels of its runs are the same too. They are
kept in one table for the process, with what a timeline needs of each. The table holds at most
`LIMIT` labels: when more have been seen it is begun anew, and a single run that has more gets a
table to itself.

Guarantee: `lookup` may be called from many threads; a table that was handed out only ever grows.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from stepscope.export._json_rows import escape_all, escaped, interleave, needs_escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]

LIMIT = 20_000

# `name = Op(input, input)`. The greedy groups matter: names may contain " = " and parentheses.
_LABEL = re.compile(r".* = (.*)\((.*)\)")


class LabelTable:
    """What labels say, by their number in the table.

    `heads` and `tails` are parts of the JSON text of a node's slice: up to the op type, and from
    the op type among the arguments to the end. Inputs are numbers of `input_names`.
    """

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.tails: list[str] = []
        self.input_names: list[str] = []
        self._codes: dict[str, int] = {}
        self._input_codes: dict[str, int] = {}
        self._input_counts: list[int] = []
        self._inputs: list[int] = []
        self._arrays: tuple[Ints, Ints] = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.heads)

    def codes(self, labels: Sequence[str]) -> Ints:
        """The number of each label; labels that are new are taken apart."""
        get = self._codes.get
        codes = [get(label, -1) for label in labels]
        if -1 in codes:
            with self._lock:
                new = list(dict.fromkeys(label for label in labels if label not in self._codes))
                self._add(new, *parse_labels(new))
            codes = [self._codes[label] for label in labels]
        return np.array(codes, np.int64)

    def codes_of_ops(self, ops: Sequence[str]) -> Ints:
        """The numbers of labels that would tell an op type and no inputs."""
        # No label of a node begins like this, and `_parse_any` is not asked about it.
        keys = [f"\0{op}" for op in ops]
        with self._lock:
            new = list(dict.fromkeys(key for key in keys if key not in self._codes))
            self._add(new, [key[1:] for key in new], [""] * len(new))
        return np.array([self._codes[key] for key in keys], np.int64)

    def inputs_of(self, codes: Ints) -> tuple[Ints, Ints]:
        """The inputs of labels: for each the position in `codes` and its number."""
        first, flat = self._input_arrays()
        begins = first[codes]
        counts = first[codes + 1] - begins
        owner = np.repeat(np.arange(len(codes)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        return owner, flat[begins[owner] + within]

    def _input_arrays(self) -> tuple[Ints, Ints]:
        with self._lock:
            first, flat = self._arrays
            if len(first) != len(self._input_counts) + 1:
                first = np.concatenate([[0], np.cumsum(self._input_counts, dtype=np.int64)])
                flat = np.array(self._inputs, np.int64)
                self._arrays = (first, flat)
            return first, flat

    def _add(self, labels: list[str], ops: list[str], inputs: list[str]) -> None:
        give = self._input_codes.setdefault
        codes = range(len(self.heads), len(self.heads) + len(labels))
        plain = not needs_escape(inputs)
        for op, many in zip(escape_all(ops), inputs, strict=True):
            parts = many.split(", ") if many else []
            texts = parts if plain else map(escaped, parts)
            named = "".join([f'","input{i}":"{text}' for i, text in enumerate(texts)])
            self.heads.append(f'{{"ph":"X","cat":"Op","name":"{op}')
            self.tails.append(f'","op":"{op}{named}"}}}},')
            self._input_counts.append(len(parts))
            self._inputs += [give(part, len(self._input_codes)) for part in parts]
        self.input_names += list(self._input_codes)[len(self.input_names) :]
        # Last: whoever finds a label without the lock finds all that belongs to it.
        self._codes.update(zip(labels, codes, strict=True))


_shared = LabelTable()


def table_for(labels: int) -> LabelTable:
    """The table for a run with so many labels."""
    global _shared
    if labels > LIMIT:
        return LabelTable()
    if len(_shared) > LIMIT:
        _shared = LabelTable()
    return _shared


def parse_labels(labels: Sequence[str]) -> tuple[list[str], list[str]]:
    """The op type of each label, "unknown" where it tells none, and its inputs as one text."""
    return _parse_usual(labels) or _parse_any(labels)


def _parse_usual(labels: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """The op types and inputs of labels `name = Op(input, input)`, all at once.

    None where any of them can be read in more than one way, or is something else.
    """
    whole = "\n".join(labels) + "\n"
    fields = whole.replace(" = ", "\n").replace("(", "\n").replace(")\n", "\n").split("\n")
    if len(fields) != 3 * len(labels) + 1:
        return None
    names, ops, inputs = fields[0:-1:3], fields[1::3], fields[2::3]
    # Cut and put together again: only then was there one way to read each.
    if "".join(interleave((names, " = ", ops, "(", inputs, ")\n"), len(labels))) != whole:
        return None
    return ops, inputs


def _parse_any(labels: Sequence[str]) -> tuple[list[str], list[str]]:
    """The same, one by one, as TensorFlow reads them."""
    matches = list(map(_LABEL.match, labels))
    return (
        ["unknown" if match is None else match[1] for match in matches],
        ["" if match is None else match[2] for match in matches],
    )
