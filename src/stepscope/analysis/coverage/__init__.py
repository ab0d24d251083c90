"""Every op accounted for: which places of a graph were measured, and why others were not."""

from stepscope.analysis.coverage.report import Coverage, CoverageRow, coverage

__all__ = ["Coverage", "CoverageRow", "coverage"]
