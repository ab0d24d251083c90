"""TensorFlow 2 with Stepscope's own API: one call, a block, and a named span.

python examples/observe_functions.py
"""

import tensorflow as tf

import stepscope


@tf.function
def model(x):
    hidden = tf.nn.relu(tf.matmul(x, x, name="hidden"))
    return tf.reduce_sum(hidden, name="total")


x = tf.ones((64, 64))
metadata = stepscope.RunMetadata()
stepscope.run(model, x, run_metadata=metadata)
print(metadata.engine, metadata.status.code, "total" in metadata.ops.name)

with stepscope.observe() as metadata:
    with stepscope.annotate("preparing"):
        y = tf.linalg.normalize(x)[0]
    tf.matmul(y, y)
print(metadata.engine, "preparing" in metadata.ops.name, metadata.ops.op.tolist().count("MatMul"))
