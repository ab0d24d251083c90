"""The public place of Keras's callback."""

from stepscope.adapters.tensorflow.training.keras import TraceCallback

__all__ = ["TraceCallback"]
