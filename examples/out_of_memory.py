"""A run that asks for more memory than there is: who held what, and the last allocations.

The same program runs on the embedded engine and on TensorFlow.
"""

import json

import tensorflow as tf

import stepscope

tf.compat.v1.disable_eager_execution()

prices = tf.random.uniform([1 << 23, 1], name="prices")
discounts = tf.random.uniform([1, 1 << 23], name="discounts")
# Every price with every discount: 256 TiB.
every_combination = tf.multiply(prices, discounts, name="every_combination")

options = tf.compat.v1.RunOptions(
    report_allocations_on_oom=True,
    allocation_log_buffer_size=100,
    allocation_log_sampling_rate=1.0,
)
metadata = tf.compat.v1.RunMetadata()

with tf.compat.v1.Session() as session:
    try:
        session.run(every_combination, options=options, run_metadata=metadata)
    except tf.errors.ResourceExhaustedError as error:
        print(error.message)
    for entry in json.loads(stepscope.extract_allocation_log(metadata)):
        print(f"{entry['event']:<8} {entry['bytes']:>19,} {entry['shape']} {entry['op_name']}")
    print("the session lives on:", session.run(tf.reduce_min(discounts)) >= 0)
