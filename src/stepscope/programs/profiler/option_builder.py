"""`ProfileOptionBuilder`: the options of a profile, put together by name."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

from stepscope.analysis.model_profile import TRAINABLE

__all__ = ["ProfileOptionBuilder"]


def _options(**chosen: Any) -> dict[str, Any]:
    return {
        "max_depth": 10_000,
        "min_bytes": 0,
        "min_micros": 0,
        "min_params": 0,
        "min_float_ops": 0,
        "min_occurrence": 0,
        "order_by": "name",
        "account_type_regexes": [".*"],
        "start_name_regexes": [".*"],
        "trim_name_regexes": [],
        "show_name_regexes": [".*"],
        "hide_name_regexes": [],
        "account_displayed_op_only": True,
        "select": ["micros"],
        "step": -1,
        "output": "stdout",
        **chosen,
    }


class ProfileOptionBuilder:
    """Begins with a dictionary of options, or with those that show the time of everything.

    Every method but `build` gives the builder back.

    >>> builder = ProfileOptionBuilder(ProfileOptionBuilder.float_operation())
    >>> options = builder.with_max_depth(3).order_by("name").with_empty_output().build()
    >>> options["max_depth"], options["order_by"], options["output"], options["select"]
    (3, 'name', 'none', ['float_ops'])
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        if options is None:
            options = _options(max_depth=100, account_displayed_op_only=False)
        self._options: dict[str, Any] = copy.deepcopy(dict(options))

    @staticmethod
    def trainable_variables_parameter() -> dict[str, Any]:
        """How many numbers the variables hold that are trained; for the view of scopes."""
        return _options(account_type_regexes=[TRAINABLE], select=["params"])

    @staticmethod
    def float_operation() -> dict[str, Any]:
        """Floating-point operations of what has any, the most first."""
        return _options(min_float_ops=1, order_by="float_ops", select=["float_ops"])

    @staticmethod
    def time_and_memory(
        min_micros: int = 1,
        min_bytes: int = 1,
        min_accelerator_micros: int = 0,
        min_cpu_micros: int = 0,
        min_peak_bytes: int = 0,
        min_residual_bytes: int = 0,
        min_output_bytes: int = 0,
    ) -> dict[str, Any]:
        """Time and memory of what takes as much as that, the longest first."""
        return _options(
            min_bytes=min_bytes, min_peak_bytes=min_peak_bytes,
            min_residual_bytes=min_residual_bytes, min_output_bytes=min_output_bytes,
            min_micros=min_micros, min_accelerator_micros=min_accelerator_micros,
            min_cpu_micros=min_cpu_micros, order_by="micros", select=["micros", "bytes"],
        )  # fmt: skip

    def build(self) -> dict[str, Any]:
        """The options; what is built later does not change them."""
        return copy.deepcopy(self._options)

    def _with(self, **chosen: Any) -> Self:
        self._options.update(copy.deepcopy(chosen))
        return self

    def with_max_depth(self, max_depth: int) -> Self:
        """Levels of a tree; rows after the first in the view of op types."""
        return self._with(max_depth=max_depth)

    def with_min_memory(
        self,
        min_bytes: int = 0,
        min_peak_bytes: int = 0,
        min_residual_bytes: int = 0,
        min_output_bytes: int = 0,
    ) -> Self:
        """Show what takes as many bytes: asked for, held at a time, left over and put out."""
        return self._with(
            min_bytes=min_bytes, min_peak_bytes=min_peak_bytes,
            min_residual_bytes=min_residual_bytes, min_output_bytes=min_output_bytes,
        )  # fmt: skip

    def with_min_execution_time(
        self, min_micros: int = 0, min_accelerator_micros: int = 0, min_cpu_micros: int = 0
    ) -> Self:
        """Show what takes as many microseconds: in all, on accelerators, on CPUs."""
        return self._with(
            min_micros=min_micros, min_accelerator_micros=min_accelerator_micros,
            min_cpu_micros=min_cpu_micros,
        )  # fmt: skip

    def with_min_parameters(self, min_params: int) -> Self:
        """Show what holds as many parameters."""
        return self._with(min_params=min_params)

    def with_min_occurrence(self, min_occurrence: int) -> Self:
        """Show what is there as often."""
        return self._with(min_occurrence=min_occurrence)

    def with_min_float_operations(self, min_float_ops: int) -> Self:
        """Show what does as many floating-point operations."""
        return self._with(min_float_ops=min_float_ops)

    def with_accounted_types(self, account_type_regexes: Sequence[str]) -> Self:
        """Count nodes one of whose types matches: op type, device, or a type of an op log."""
        return self._with(account_type_regexes=list(account_type_regexes))

    def with_node_names(
        self,
        start_name_regexes: Sequence[str] | None = None,
        show_name_regexes: Sequence[str] | None = None,
        hide_name_regexes: Sequence[str] | None = None,
        trim_name_regexes: Sequence[str] | None = None,
    ) -> Self:
        """Begin at, show, hide, and show nothing below what matches; None changes nothing."""
        given = {
            "start_name_regexes": start_name_regexes,
            "show_name_regexes": show_name_regexes,
            "hide_name_regexes": hide_name_regexes,
            "trim_name_regexes": trim_name_regexes,
        }
        return self._with(
            **{name: list(value) for name, value in given.items() if value is not None}
        )

    def account_displayed_op_only(self, is_true: bool) -> Self:
        """Whether totals are of what is shown, or of all that counts."""
        return self._with(account_displayed_op_only=is_true)

    def with_empty_output(self) -> Self:
        """Write nothing."""
        return self._with(output="none")

    def with_stdout_output(self) -> Self:
        """Write the report to the standard output."""
        return self._with(output="stdout")

    def with_file_output(self, outfile: str) -> Self:
        """Write the report to a file."""
        return self._with(output=f"file:outfile={outfile}")

    def with_timeline_output(self, timeline_file: str) -> Self:
        """Write a Chrome trace of a step; its file's name ends in `_` and the step."""
        return self._with(output=f"timeline:outfile={timeline_file}")

    def with_pprof_output(self, pprof_file: str) -> Self:
        """Write a profile for `pprof`: of the view of code."""
        return self._with(output=f"pprof:outfile={pprof_file}")

    def order_by(self, attribute: str) -> Self:
        """Order by "name", or by a number such as "micros", the largest first."""
        return self._with(order_by=attribute)

    def select(self, attributes: Sequence[str]) -> Self:
        """What to show of each place."""
        return self._with(select=list(attributes))

    def with_step(self, step: int) -> Self:
        """Which step's numbers, of those that `add_step` was given; -1 averages them."""
        return self._with(step=step)
