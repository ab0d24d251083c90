"""What TensorFlow 1 programs have around their graph: input threads, monitored sessions, hooks,
checkpoints, flags, a log, files, data. `tf1/` gives it TensorFlow's names.

This file imports nothing: data and files are used without an engine, too.
"""
