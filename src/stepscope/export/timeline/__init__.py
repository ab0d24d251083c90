"""TensorFlow's `timeline.Timeline`, from the same step stats, and several of them in one file."""

from stepscope.export.timeline.timeline import Timeline
from stepscope.export.timeline.timeliner import TimeLiner

__all__ = ["TimeLiner", "Timeline"]
