"""The embedding projector's configuration, as TensorBoard's plugin reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorboard.plugins.projector import projector_config_pb2

import stepscope.tf1 as tf
from stepscope.tf1.contrib.tensorboard.plugins import projector


def test_what_is_written_is_what_tensorboard_reads(tmp_path: Path) -> None:
    config = projector.ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name, embedding.metadata_path = "words", "labels.tsv"
    embedding.sprite.image_path = "sprite.png"
    embedding.sprite.single_image_dim.extend([28, 28])
    projector.visualize_embeddings(tf.summary.FileWriter(str(tmp_path)), config)
    text = (tmp_path / "projector_config.pbtxt").read_text()
    assert text_format.Parse(text, projector_config_pb2.ProjectorConfig()) == config
    assert tf.contrib.tensorboard.plugins.projector is projector
    with pytest.raises(AttributeError, match="Stepscope"):
        _ = projector.nothing
