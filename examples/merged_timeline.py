"""Three traced runs, each a Chrome trace, merged into one file.

The class is what programs of the time brought along themselves; `stepscope.tf1.timeline.TimeLiner`
does the same, and also keeps the runs' lanes and arrows apart.

    stepscope run examples/merged_timeline.py [runs.json]
"""

import json
import sys

import tensorflow.compat.v1 as tf
from tensorflow.python.client import timeline

tf.disable_eager_execution()


class MergedTimeline:
    def __init__(self):
        self.trace = None

    def add(self, chrome_trace):
        trace = json.loads(chrome_trace)
        if self.trace is None:
            self.trace = trace
        else:
            # Process names and the like are the same in every run; only what happened is new.
            self.trace["traceEvents"] += [e for e in trace["traceEvents"] if "ts" in e]

    def save(self, path):
        with open(path, "w") as file:
            json.dump(self.trace, file)


target = sys.argv[1] if len(sys.argv) > 1 else "runs.json"

noise = tf.random_normal([1, 100], seed=1, name="noise")
offset = tf.placeholder(tf.float32, [], name="offset")
moved = tf.add(noise, offset, name="moved")

merged = MergedTimeline()
with tf.Session() as session:
    for step in range(3):
        metadata = tf.RunMetadata()
        session.run(
            moved,
            feed_dict={offset: float(step)},
            options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
            run_metadata=metadata,
        )
        merged.add(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())
merged.save(target)

slices = [event["args"]["name"] for event in merged.trace["traceEvents"] if event["ph"] == "X"]
print(f"{target}: 3 runs, {slices.count('moved')} executions of 'moved'")
