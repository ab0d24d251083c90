"""Images in summaries, and what TensorBoard reads of all kinds of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import stepscope.tf1 as tf1

NAN, INF = float("nan"), float("inf")
RANDOM = np.random.default_rng(12)
SIGNED = RANDOM.normal(size=(3, 4, 5, 3)).astype("float32")
BATCHES = {
    "signed": SIGNED,
    "positive": np.abs(SIGNED) * 40,
    "negative": -np.abs(SIGNED),
    "transparent": RANDOM.uniform(size=(2, 3, 3, 4)).astype("float32"),
    "grey": SIGNED[..., :1],
    "halves": SIGNED.astype("float16"),
    "doubles": SIGNED.astype("float64"),
    "dark": np.zeros((1, 2, 2, 3), "float32"),
    "broken": np.where(RANDOM.uniform(size=SIGNED.shape) < 0.2, NAN, SIGNED),
    "endless": np.where(RANDOM.uniform(size=SIGNED.shape) < 0.1, INF, np.abs(SIGNED)),
    "nothing known": np.full((1, 2, 2, 1), NAN, "float32"),
    "bytes": RANDOM.integers(0, 256, (2, 4, 3, 3)).astype("uint8"),
}


def images_of(tf: Any, name: str, **more: Any) -> Any:
    graph = tf.Graph()
    with graph.as_default(), tf.Session() as session:
        packed = session.run(tf.summary.image("a/b", tf.constant(BATCHES[name]), **more))
    return [(v.tag, v.image) for v in tf.Summary.FromString(packed).value]


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", BATCHES)
def test_pixels_are_tensorflows(tf: Any, tensorflow: Any, name: str) -> None:
    options = {"max_outputs": 1} if name == "bytes" else {"max_outputs": 2}
    ours, theirs = images_of(tf1, name, **options), images_of(tf, name, **options)
    assert [tag for tag, _image in ours] == [tag for tag, _image in theirs]
    for (_tag, own), (_, other) in zip(ours, theirs, strict=True):
        assert (own.height, own.width, own.colorspace) == (
            (other.height, other.width, other.colorspace)
        )
        decoded = [
            tensorflow.io.decode_png(tensorflow.constant(image.encoded_image_string)).numpy()
            for image in (own, other)
        ]
        np.testing.assert_array_equal(*decoded)


def test_tensorboard_reads_all_of_them(tmp_path: Path) -> None:
    with tf1.Graph().as_default() as graph, tf1.Session() as session:
        values = tf1.constant([1.0, 2.0, 2.0, -5.0])
        tf1.summary.scalar("loss", tf1.reduce_sum(values))
        tf1.summary.histogram("weights", values)
        tf1.summary.image("digits", tf1.constant(SIGNED), max_outputs=2)
        tf1.summary.text("notes", tf1.constant("all *well*"))
        everything = tf1.summary.merge_all()
        writer = tf1.summary.FileWriter(str(tmp_path), graph)
        for step in (1, 2):
            writer.add_summary(session.run(everything), step)
        writer.close()
    read = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in read.Scalars("loss")] == [(1, 0), (2, 0)]
    histogram = read.Histograms("weights")[0].histogram_value
    assert (histogram.min, histogram.max, histogram.num, histogram.sum) == (-5, 2, 4, 0)
    assert sum(histogram.bucket) == 4
    assert len(histogram.bucket) == len(histogram.bucket_limit)
    image = read.Images("digits/image/1")[0]
    assert (image.width, image.height) == (5, 4)
    assert image.encoded_image_string.startswith(b"\x89PNG")
    assert read.Tensors("notes")[0].tensor_proto.string_val[0] == b"all *well*"


def test_images_of_the_wrong_rank_are_refused_when_the_graph_is_built() -> None:
    with tf1.Graph().as_default(), pytest.raises(ValueError, match="rank 4 but is rank 2"):
        tf1.summary.image("i", tf1.zeros([2, 3]))
