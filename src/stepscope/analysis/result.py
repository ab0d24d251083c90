"""What every analysis returns: a frozen dataclass that turns into plain values, JSON or pandas."""

from __future__ import annotations

import dataclasses
import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Result"]


class Result:
    """The base of the analyses' results, which are frozen dataclasses.

    `to_dict` and `to_json` hold every field. `to_pandas` is one row per entry of `rows`. In a
    notebook a result shows itself as a table, and a plot where it has one.
    """

    __slots__ = ()

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

        A result has sums and no runs: give it what the analysis was given. The page that shows what
        it found comes first: of an `OpProfile` the ops, of a `Diff` (of two) what became slower.
        """
        # That room lies above this one (see its text).
        return import_module("stepscope.notebook").show_result(self, runs, height)

    def _repr_html_(self) -> str:
        drawn: str = import_module("stepscope.notebook").result_html(self)
        return drawn


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
