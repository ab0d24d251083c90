"""Programs from before TensorFlow 1.0: the names of then, with the arguments in their order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

import stepscope.tf1 as tf


def run(tensors):
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        return session.run(tensors)


def test_arithmetic(graph):
    x, y = tf.constant([1.0, -2.0]), tf.constant([4.0, 5.0])
    matrices = tf.constant(np.arange(12.0).reshape(2, 2, 3))
    found = run(
        [tf.mul(x, y), tf.sub(x, y), tf.neg(x), tf.inv(y), tf.select(x > 0, x, y),
         tf.batch_matmul(matrices, matrices, adj_y=True), tf.complex_abs(tf.complex(3.0, 4.0))]
    )  # fmt: skip
    assert found[0].tolist() == [4.0, -10.0]
    assert found[1].tolist() == [-3.0, -7.0]
    assert found[2].tolist() == [-1.0, 2.0]
    assert found[3].tolist() == [0.25, np.float32(0.2)]
    assert found[4].tolist() == [1.0, 5.0]
    assert found[5][0].tolist() == [[5.0, 14.0], [14.0, 50.0]]
    assert found[6] == 5.0


def test_axes_came_first(graph):
    x = tf.constant([[1, 2], [3, 4]])
    assert run(tf.concat(1, [x, x])).tolist() == run(tf.concat([x, x], 1)).tolist()
    assert run(tf.concat(concat_dim=0, values=[x, x])).shape == (4, 2)
    old, new = run([tf.split(1, 2, x), tf.split(x, 2, axis=1)])
    assert (
        [part.tolist() for part in old]
        == [part.tolist() for part in new]
        == [[[1], [3]], [[2], [4]]]
    )
    assert len(tf.split(split_dim=0, num_split=2, value=x)) == 2
    assert run(tf.pack([x, x])).shape == (2, 2, 2)
    assert [part.tolist() for part in run(tf.unpack(x))] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="needs both `values`"):
        tf.concat([x, x])
    with pytest.raises(TypeError, match="needs both `value`"):
        tf.split(x)


def test_logits_came_first(graph):
    logits = tf.Variable([[1.0, 2.0, 0.5]]) * 2.0
    hot = tf.placeholder_with_default([[0.0, 0.0, 1.0]], [1, 3])
    for function in (
        tf.nn.softmax_cross_entropy_with_logits, tf.nn.sigmoid_cross_entropy_with_logits
    ):  # fmt: skip
        old, new, named = run(
            [function(logits, hot), function(hot, logits), function(labels=hot, logits=logits)]
        )
        assert old.tolist() == new.tolist() == named.tolist()
        with pytest.raises(ValueError, match="named arguments"):
            function(hot, hot)
        with pytest.raises(ValueError, match="named arguments"):
            function(logits, labels=hot)
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits
    old, new, named = run(
        [sparse(logits, [2]), sparse([2], logits), sparse(labels=[2], logits=logits)]
    )
    assert old.tolist() == new.tolist() == named.tolist()


def test_summaries_keep_their_tags(graph, tmp_path: Path):
    with tf.name_scope("train"):
        tf.scalar_summary("loss", 0.5)
        tf.scalar_summary(["a", "b"], [1.0, 2.0])
        tf.histogram_summary("weights", tf.constant([1.0, 2.0]))
        tf.image_summary("seen", tf.zeros([5, 2, 2, 1]), max_images=2)
        tf.audio_summary("heard", tf.zeros([1, 8]), 8000.0, max_outputs=1)
        other = tf.merge_summary([tf.scalar_summary("other", 3.0, collections=["mine"])])
    merged = tf.merge_all_summaries()
    writer = tf.train.SummaryWriter(str(tmp_path), graph_def=graph.as_graph_def())
    for packed in run([merged, other]):
        writer.add_summary(packed, 7)
    writer.close()
    (path,) = tmp_path.glob("events*")
    events = [e for e in LegacyEventFileLoader(str(path)).Load() if e.HasField("summary")]
    tags = [value.tag for event in events for value in event.summary.value]
    assert tags == [
        "loss", "a", "b", "weights", "seen/image/0", "seen/image/1", "heard/audio", "other"
    ]  # fmt: skip
    assert merged.op.type == "MergeSummary"
    assert {op.name for op in graph.get_operations()} >= {
        "train/ScalarSummary", "train/HistogramSummary", "train/ImageSummary", "train/MergeSummary"
    }  # fmt: skip
