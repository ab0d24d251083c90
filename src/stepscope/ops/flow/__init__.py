"""The order of things: conditionals, loops, TensorArrays, and the way back for gradients."""
