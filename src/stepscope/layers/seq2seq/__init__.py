"""Sequences to sequences: unrolled decoders, attention, and what their outputs cost."""
