"""One module per output; the names to use are these."""

from stepscope.export.chrome import chrome
from stepscope.export.tensorboard import EventFileWriter, FileWriter
from stepscope.export.timeline import Timeline
from stepscope.export.timeliner import TimeLiner

__all__ = ["EventFileWriter", "FileWriter", "TimeLiner", "Timeline", "chrome"]
