"""What every analysis returns: a frozen dataclass that turns into plain values, JSON or pandas."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import orjson

__all__ = ["Result", "made_of"]


class Result:
    """The base of the analyses' results, which are frozen dataclasses.

    `to_dict` and `to_json` hold every field. `to_pandas` is one row per entry of `rows`. In a
    notebook a result shows itself as a table, and a plot where it has one.

    A result remembers the runs it was made of (`made_of`), for `show`. They are no part of its
    value: results are equal, copied and pickled by their fields.
    """

    __slots__ = ("_made_of",)
    _made_of: tuple[Any, ...]

    def _rows(self) -> Sequence[Any]:
        """The entries of the result's main table."""
        return tuple(getattr(self, "rows", ()))

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain dictionaries, lists, numbers and strings."""
        plain: dict[str, Any] = _plain(self)
        return plain

    def to_json(self) -> str:
        """All fields as JSON, indented."""
        plain = self.to_dict()
        try:
            return orjson.dumps(plain, option=orjson.OPT_INDENT_2).decode()
        except TypeError:
            # A path that is no text, or a number of more than 64 bits: JSON has both, orjson not.
            return json.dumps(plain, indent=2)

    def to_pandas(self) -> Any:
        """The main table as a pandas `DataFrame`."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "to_pandas() needs pandas, which is not installed: `pip install pandas`, "
                "or use to_dict() or to_json()"
            ) from error
        return pd.DataFrame([_plain(row) for row in self._rows()])

    def show(self, *runs: Any, height: int = 720) -> Any:
        """The viewer's pages for the runs it was made of, for a notebook.

        The page that shows what it found comes first: of an `OpProfile` the ops, of a `Diff` what
        became slower. Runs need to be given only where the analysis was given an iterator, which
        loads them one after the other, or where the result was copied or unpickled since.
        """
        # That room lies above this one (see its text).
        made_of = runs or getattr(self, "_made_of", ())
        return import_module("stepscope.notebook").show_result(self, made_of, height)

    def _repr_html_(self) -> str:
        drawn: str = import_module("stepscope.notebook").result_html(self)
        return drawn


Made = TypeVar("Made", bound=Result)


def made_of(result: Made, *runs: Any) -> Made:
    """The result, which from now on remembers the runs it was made of.

    What can be gone over again: a run, a sequence or mapping of runs, a path. An iterator that
    loads runs, or a function that gives them, is not kept: it may be as large as a disk.
    """
    kept = tuple(
        given
        for given in runs
        if isinstance(given, Sequence | Mapping | os.PathLike)
        or type(given).__name__ == "RunMetadata"
    )
    if kept and len(kept) == len(runs):
        object.__setattr__(result, "_made_of", kept)  # its fields stay as they are: it is frozen
    return result


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset | set):
        return [_plain(item) for item in value]
    return value
