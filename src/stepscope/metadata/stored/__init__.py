"""A run as a store keeps it: packed columns, patterns, what repeats once; sums of all steps."""
