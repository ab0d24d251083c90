"""Who held memory: the peak, each instant, each tensor, and what grows from step to step."""
