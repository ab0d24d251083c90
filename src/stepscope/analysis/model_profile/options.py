"""What `tf.profiler` is asked for: which nodes to count, to show, and in which order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["ATTRIBUTES", "ORDERS", "ProfileOptions"]

ATTRIBUTES = (
    "bytes", "peak_bytes", "residual_bytes", "output_bytes", "micros", "accelerator_micros",
    "cpu_micros", "params", "float_ops", "occurrence", "device", "op_types", "input_shapes",
    "tensor_value",
)  # fmt: skip
"""What `select` may name."""
ORDERS = ("name", *ATTRIBUTES[:10])
"""What `order_by` may name."""
_OUTPUTS = ("none", "stdout", "file", "timeline", "pprof")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """TensorFlow's options, under its names; the defaults are those of a name that is not given.

    A regular expression has to match the whole of a name or type. Of a node's own numbers
    `min_params`, `min_float_ops` and `min_occurrence` are limits; the others are of what it and all
    below it took.
    """

    max_depth: int = 10
    min_bytes: int = 0
    min_peak_bytes: int = 0
    min_residual_bytes: int = 0
    min_output_bytes: int = 0
    min_micros: int = 0
    min_accelerator_micros: int = 0
    min_cpu_micros: int = 0
    min_params: int = 0
    min_float_ops: int = 0
    min_occurrence: int = 0
    step: int = -1
    order_by: str = "name"
    account_type_regexes: tuple[str, ...] = ()
    start_name_regexes: tuple[str, ...] = ()
    trim_name_regexes: tuple[str, ...] = ()
    show_name_regexes: tuple[str, ...] = ()
    hide_name_regexes: tuple[str, ...] = ()
    account_displayed_op_only: bool = False
    select: tuple[str, ...] = ()
    output: str = "stdout"
    dump_to_file: str = ""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ProfileOptions:
        """From a dictionary of options, as `ProfileOptionBuilder` builds them.

        A name that is no option says nothing, as in TensorFlow; a value that cannot be is a
        `ValueError` that tells what can.

        >>> ProfileOptions.of({"order_by": "micros", "select": ["micros"]}).select
        ('micros',)
        """
        known = {field.name: given[field.name] for field in fields(cls) if field.name in given}
        for name, value in known.items():
            if name.endswith("_regexes") or name == "select":
                known[name] = tuple(value)
        options = cls(**known)
        options._check()
        return options

    def _check(self) -> None:
        for wrong in sorted({*self.select} - {*ATTRIBUTES}):
            raise ValueError(f"select has {wrong!r}; it may have {', '.join(ATTRIBUTES)}")
        if self.order_by not in ORDERS:
            raise ValueError(f"order_by is {self.order_by!r}; it may be {', '.join(ORDERS)}")
        kind, _ = self.output_to
        if kind not in _OUTPUTS:
            raise ValueError(f"output is {self.output!r}; it may be {', '.join(_OUTPUTS)}")
        for field in fields(self):
            if field.name.endswith("_regexes"):
                for pattern in getattr(self, field.name):
                    try:
                        re.compile(pattern)
                    except re.error as error:
                        raise ValueError(f"{field.name} has {pattern!r}: {error}") from None

    @property
    def output_to(self) -> tuple[str, str]:
        """What kind of output, and the file: `file:outfile=PATH` is ("file", "PATH")."""
        kind, _, rest = self.output.partition(":")
        return kind, rest.removeprefix("outfile=")

    def accounts(self, types: Iterable[str]) -> bool:
        """Whether a node of these types counts."""
        if self.account_type_regexes == (".*",):
            return True
        return any(_matches(kind, self.account_type_regexes) for kind in types)

    def starts(self, name: str) -> bool:
        return _matches(name, self.start_name_regexes)

    def trims(self, name: str) -> bool:
        return _matches(name, self.trim_name_regexes)

    def shows(self, name: str) -> bool:
        """Whether a name is among those to show, and not among those to hide."""
        return _matches(name, self.show_name_regexes) and not _matches(name, self.hide_name_regexes)


def _matches(text: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, text, re.DOTALL) for pattern in patterns)
