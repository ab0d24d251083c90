"""Event files of recorded loops, as TensorBoard reads them."""

from stepscope.metadata import RunMetadata


def read(logdir):
    """What TensorBoard makes of a directory."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(logdir))
    accumulator.Reload()
    return accumulator


def run_metadata(accumulator, tag):
    return RunMetadata.FromString(accumulator.RunMetadata(tag).SerializeToString())
