"""One module or package per output; the names to use are these."""

from stepscope.export.chrome import chrome
from stepscope.export.chrome.merge import merge
from stepscope.export.csv import csv
from stepscope.export.parquet import parquet
from stepscope.export.pprof import pprof
from stepscope.export.tensorboard import (
    EventFileWriter,
    FileWriter,
    TensorBoardWriter,
    metadata_from_text,
)
from stepscope.export.timeline import Timeline, TimeLiner
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
    "pprof",
    "xplane",
]
