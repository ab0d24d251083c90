"""Who holds which bytes: buffers for outputs, limits by device, and what a run did to memory."""
