"""A whole program: its steps, what limits them, what its wall clock went to."""
