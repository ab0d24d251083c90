"""The public place of the hook for sessions."""

from stepscope.adapters.tensorflow.training.session_hook import TraceHook

__all__ = ["TraceHook"]
