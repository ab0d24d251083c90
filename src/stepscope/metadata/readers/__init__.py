"""Reading runs from files: `load`, and one module per format.

A format is a module with `NAME`, `recognises(path, data)` and `read(path, data)`; adding one means
adding the module and a line in `_load.READERS`.
"""

from stepscope.metadata.readers._load import load

__all__ = ["load"]
