"""Functions over the model: they take runs and return values, and never print, draw or write."""

from stepscope.analysis.coverage import Coverage, CoverageRow, coverage
from stepscope.analysis.op_table import OpRow, OpTable, op_table
from stepscope.analysis.runs import NamedRun, named_runs

__all__ = [
    "Coverage",
    "CoverageRow",
    "NamedRun",
    "OpRow",
    "OpTable",
    "coverage",
    "named_runs",
    "op_table",
]
