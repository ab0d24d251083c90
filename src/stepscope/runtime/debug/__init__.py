"""Tensor watches: what `debug_options` ask for, and where the values go."""
