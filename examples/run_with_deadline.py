"""One run with a full trace and a deadline of five seconds, in TensorFlow 1's own words."""

import tensorflow as tf

width = tf.constant(3.0, name="width")
height = tf.constant(4.0, name="height")
diagonal = tf.sqrt(width * width + height * height, name="diagonal")

options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, timeout_in_ms=5000)
metadata = tf.RunMetadata()

with tf.Session() as session:
    print(session.run(diagonal, options=options, run_metadata=metadata))

for device in metadata.step_stats.dev_stats:
    for node in device.node_stats:
        print(f"{device.device}: {node.node_name}")
