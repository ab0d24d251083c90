"""Event files, and what TensorBoard's pages show of runs."""

from stepscope.export.tensorboard.event_file import EventFileWriter
from stepscope.export.tensorboard.metadata_summaries import metadata_from_text
from stepscope.export.tensorboard.writers import FileWriter, TensorBoardWriter

__all__ = ["EventFileWriter", "FileWriter", "TensorBoardWriter", "metadata_from_text"]
