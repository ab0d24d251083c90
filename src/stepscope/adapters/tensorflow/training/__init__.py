"""Recording training loops: hooks of sessions, callbacks of Keras."""
