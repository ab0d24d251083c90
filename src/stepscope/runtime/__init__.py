"""The embedded engine: sessions that run graphs on NumPy under the contract."""

from stepscope.runtime.session import InteractiveSession, Session

__all__ = ["InteractiveSession", "Session"]
