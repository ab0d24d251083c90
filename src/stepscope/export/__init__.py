"""One module per output; the names to use are these."""

from stepscope.export.chrome import chrome
from stepscope.export.csv import csv
from stepscope.export.event_file import EventFileWriter
from stepscope.export.merge import merge
from stepscope.export.metadata_summaries import metadata_from_text
from stepscope.export.parquet import parquet
from stepscope.export.tensorboard import FileWriter, TensorBoardWriter
from stepscope.export.timeline import Timeline
from stepscope.export.timeliner import TimeLiner
from stepscope.export.xplane import xplane

__all__ = [
    "EventFileWriter",
    "FileWriter",
    "TensorBoardWriter",
    "TimeLiner",
    "Timeline",
    "chrome",
    "csv",
    "merge",
    "metadata_from_text",
    "parquet",
    "xplane",
]
