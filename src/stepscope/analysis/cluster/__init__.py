"""Many tasks: one clock for all, what moved between them, who was late, steps put together."""
