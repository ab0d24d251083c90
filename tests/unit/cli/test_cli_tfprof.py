"""`tf.contrib.tfprof` in scripts under `stepscope run`, on both engines."""

import pytest

from stepscope.tf1.core.profiler import tfprof_log_pb2

SCRIPT = """
import numpy as np, tensorflow as tf
from tensorflow.contrib.tfprof import model_analyzer

x = tf.placeholder(tf.float32, [None, 8])
weights = tf.get_variable("weights", [8, 2])
loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)))
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
builder = tf.profiler.ProfileOptionBuilder
opts = builder(builder.time_and_memory()).order_by("micros").with_empty_output().build()
with tf.contrib.tfprof.ProfileContext("profiles", trace_steps=[], dump_steps=[]) as pctx:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        pctx.trace_next_step()
        pctx.dump_next_step()
        session.run(train, {x: np.ones((4, 8))})
        found = pctx.profiler.profile_operations(options=opts)
print("took", found.total_exec_micros > 0)
params = model_analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS
print(model_analyzer.print_model_analysis(tf.get_default_graph(), tfprof_options=params)
      .total_parameters)
try:
    tf.contrib.no_such_thing
except AttributeError as error:
    print(error)
"""


@pytest.mark.parametrize("engine", ["embedded", "tensorflow"])
def test_a_profile_context_of_a_script(engine, stepscope, script, tmp_path, request):
    if engine == "tensorflow":
        request.getfixturevalue("tensorflow")
    done = stepscope("run", "--engine", engine, "--out", "out", script(SCRIPT))
    assert done.returncode == 0, done.stderr
    assert "took True" in done.stdout
    assert "weights (8x2, 16/16 params)" in done.stdout
    assert "\n16\n" in done.stdout
    assert "has no attribute 'no_such_thing'" in done.stdout
    data = (tmp_path / "profiles" / "profile_1").read_bytes()
    kept = tfprof_log_pb2.ProfileProto.FromString(data)
    assert list(kept.steps) == [1]
    assert "MatMul" in {node.name for node in kept.nodes.values() if node.execs}
