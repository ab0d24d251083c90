"""Tensors as arrays: made, laid out in axes, put together, taken apart, indexed; and text."""
