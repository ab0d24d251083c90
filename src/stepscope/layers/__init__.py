"""What is built of ops and registers none: layers, cells, losses, optimizers, metrics, scopes."""
