"""One traced run of a large product, written as a Chrome trace.

stepscope run examples/matmul_timeline.py [product.json]
"""

import json
import sys

import tensorflow.compat.v1 as tf
from tensorflow.python.client import timeline

tf.disable_eager_execution()

target = sys.argv[1] if len(sys.argv) > 1 else "product.json"

left = tf.random_normal([800, 800], seed=1, name="left")
right = tf.random_normal([800, 800], seed=2, name="right")
product = tf.matmul(left, right, name="product")

with tf.Session() as session:
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    metadata = tf.RunMetadata()
    session.run(product, options=options, run_metadata=metadata)

trace = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
with open(target, "w") as file:
    file.write(trace)

slices = [event for event in json.loads(trace)["traceEvents"] if event["ph"] == "X"]
print(f"{target}: {len(slices)} slices, {sorted({event['name'] for event in slices})}")
