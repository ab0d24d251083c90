"""Runs as Chrome traces, for Perfetto and chrome://tracing."""

from stepscope.export.chrome.trace import chrome

__all__ = ["chrome"]
