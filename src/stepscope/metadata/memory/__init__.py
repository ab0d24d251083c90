"""Memory in the model: what was allocated and freed, used per op, and asked for in vain."""
