"""One run: what waited for what, on which threads and devices, as it is drawn over time."""
