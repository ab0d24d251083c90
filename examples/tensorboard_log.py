"""The same sum twice: timed by hand, then traced and logged for TensorBoard.

stepscope run examples/tensorboard_log.py [logs/sum]
tensorboard --logdir logs
"""

import sys
import time

import tensorflow as tf

tf.compat.v1.disable_eager_execution()

logdir = sys.argv[1] if len(sys.argv) > 1 else "logs/sum"

with tf.compat.v1.Session() as session:
    prices = tf.constant([1.5, 2.5, 3.5], name="prices")
    taxes = tf.constant([0.3, 0.5, 0.7], name="taxes")
    total = tf.add(prices, taxes, name="total")

    start = time.perf_counter()
    print(session.run(total))
    print(f"took {time.perf_counter() - start:.6f} s", file=sys.stderr)

    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
    session.run(total, options=options, run_metadata=metadata)

    writer = tf.compat.v1.summary.FileWriter(logdir, graph=session.graph)
    writer.add_run_metadata(metadata, "traced")
    writer.close()
print(f"logged to {logdir}")
