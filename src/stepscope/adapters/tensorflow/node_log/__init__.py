"""The executor of our own: building, finding and reading it; its source is in `native/`."""
