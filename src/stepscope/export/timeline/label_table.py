"""Timeline labels, each taken apart once.

A program runs the same graph again and again, so the labels of its runs are the same too. They are
kept in one table for the process, with what a timeline needs of each. The table holds at most
`LIMIT` labels, and names of `LIMIT_CHARACTERS`: when more have been seen it is begun anew, and a
single run that has more labels gets a table to itself.

Guarantee: a table may be used from many threads; one that was handed out only ever grows.
"""

from __future__ import annotations

import re
import threading
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from stepscope.export.json_rows import escape_all, escaped, interleave, needs_escape, text_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]

LIMIT = 20_000
LIMIT_CHARACTERS = 1 << 24

# `name = Op(input, input)`. The greedy groups matter: names may contain " = " and parentheses.
_LABEL = re.compile(r".* = (.*)\((.*)\)")


class Parts(NamedTuple):
    """What labels say, as arrays.

    `heads` and `tails` are parts of the JSON text of a node's slice, by the label's number: up to
    the op type, and from the op type among the arguments to the end. The inputs of label `i` are
    `inputs[first[i] : first[i + 1]]`, numbers of tensors; `names` are the tensors', escaped.
    """

    heads: NDArray[Any]
    tails: NDArray[Any]
    first: Ints
    inputs: Ints
    names: NDArray[Any]


class LabelTable:
    """Numbers for labels and for the names of tensors, and what each label says."""

    def __init__(self) -> None:
        self.tensor_names: list[str] = []
        self.characters = 0
        self._heads: list[str] = []
        self._tails: list[str] = []
        self._codes: dict[str, int] = {}
        self._tensor_codes: dict[str, int] = {}
        self._input_counts: list[int] = []
        self._inputs: list[int] = []
        self._parts: Parts | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._heads)

    def codes(self, labels: Sequence[str]) -> Ints:
        """The number of each label; labels that are new are taken apart."""
        found = _numbers(self._codes, labels)
        if found is None:
            with self._lock:
                new = list(dict.fromkeys(label for label in labels if label not in self._codes))
                self._add(new, *parse_labels(new))
            found = np.array([self._codes[label] for label in labels], np.int64)
        return found

    def codes_of_ops(self, ops: Sequence[str]) -> Ints:
        """The numbers of labels that would tell an op type and no inputs."""
        # No label of a node begins like this, and `_parse_any` is not asked about it.
        keys = [f"\0{op}" for op in ops]
        with self._lock:
            new = list(dict.fromkeys(key for key in keys if key not in self._codes))
            self._add(new, [key[1:] for key in new], [""] * len(new))
        return np.array([self._codes[key] for key in keys], np.int64)

    def tensors(self, names: Sequence[str]) -> Ints:
        """The number of each tensor by its name; names that are new get one."""
        found = _numbers(self._tensor_codes, names)
        if found is None:
            with self._lock:
                give = self._tensor_codes.setdefault
                codes = [give(name, len(self._tensor_codes)) for name in names]
                self._note_names()
            found = np.array(codes, np.int64)
        return found

    def tensor(self, name: str) -> int:
        """The number of a tensor, -1 for a name that nobody mentioned."""
        return self._tensor_codes.get(name, -1)

    def parts(self) -> Parts:
        """What all labels say that have a number by now."""
        with self._lock:
            parts = self._parts
            if (
                parts is None
                or len(parts.heads) != len(self)
                or (len(parts.names) != len(self.tensor_names))
            ):
                first = np.concatenate([[0], np.cumsum(self._input_counts, dtype=np.int64)])
                self._parts = parts = Parts(
                    np.array(self._heads, object),
                    np.array(self._tails, object),
                    first,
                    np.array(self._inputs, np.int64),
                    text_table(self.tensor_names),
                )
            return parts

    def _add(self, labels: list[str], ops: list[str], inputs: list[str]) -> None:
        give = self._tensor_codes.setdefault
        codes = range(len(self), len(self) + len(labels))
        plain = not needs_escape(inputs)
        for op, many in zip(escape_all(ops), inputs, strict=True):
            parts = many.split(", ") if many else []
            texts = parts if plain else map(escaped, parts)
            named = "".join([f'","input{i}":"{text}' for i, text in enumerate(texts)])
            self._heads.append(f'{{"ph":"X","cat":"Op","name":"{op}')
            self._tails.append(f'","op":"{op}{named}"}}}},')
            self._input_counts.append(len(parts))
            self._inputs += [give(part, len(self._tensor_codes)) for part in parts]
        self._note_names()
        self.characters += sum(map(len, labels))
        # Last: whoever finds a label without the lock finds all that belongs to it.
        self._codes.update(zip(labels, codes, strict=True))

    def _note_names(self) -> None:
        new = list(islice(self._tensor_codes, len(self.tensor_names), None))
        self.tensor_names += new
        self.characters += sum(map(len, new))


def _numbers(known: dict[str, int], keys: Sequence[str]) -> Ints | None:
    """The number of each key; None where one of them is not known."""
    try:
        # One call that looks up all of them; given fewer than two it behaves differently.
        found = itemgetter(*keys)(known) if len(keys) > 1 else [known[key] for key in keys]
    except KeyError:
        return None
    return np.fromiter(found, np.int64, len(keys))


_shared = LabelTable()


def table_for(labels: int) -> LabelTable:
    """The table for a run with so many labels."""
    global _shared
    if labels > LIMIT:
        return LabelTable()
    if len(_shared) > LIMIT or _shared.characters > LIMIT_CHARACTERS:
        _shared = LabelTable()
    return _shared


def parse_labels(labels: Sequence[str]) -> tuple[list[str], list[str]]:
    """The op type of each label, "unknown" where it tells none, and its inputs as one text."""
    found = _parse_usual(labels)
    if found is None:
        # Labels of transfers between tasks tell neither; those beside them are usual all the same.
        telling = [place for place, label in enumerate(labels) if " = " in label]
        some = _parse_usual([labels[place] for place in telling])
        if some is None:
            return _parse_any(labels)
        found = ["unknown"] * len(labels), [""] * len(labels)
        for place, op, inputs in zip(telling, *some, strict=True):
            found[0][place], found[1][place] = op, inputs
    return found


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
