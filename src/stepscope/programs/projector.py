"""The embedding projector of TensorBoard's: which variables it shows, and what labels them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import (
    EmbeddingInfo,
    ProjectorConfig,
    SpriteMetadata,
)

from stepscope.whole_files import write_whole

__all__ = ["EmbeddingInfo", "ProjectorConfig", "SpriteMetadata", "visualize_embeddings"]


def visualize_embeddings(summary_writer: Any, config: Any) -> None:
    """Write `projector_config.pbtxt` beside the writer's events, where TensorBoard looks for it.

    `summary_writer` may also be a directory; the variables are in the checkpoints there.

    >>> import tempfile
    >>> from stepscope.tf1.contrib.tensorboard.plugins import projector
    >>> config = projector.ProjectorConfig()
    >>> config.embeddings.add().tensor_name = "words"
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     projector.visualize_embeddings(directory, config)
    ...     print((Path(directory) / "projector_config.pbtxt").read_text().split())
    ['embeddings', '{', 'tensor_name:', '"words"', '}']
    """
    logdir = summary_writer
    if not isinstance(summary_writer, (str, os.PathLike)):
        logdir = summary_writer.get_logdir()
    if logdir is None:
        raise ValueError("Expected writer to have a logdir")
    text = text_format.MessageToString(config)
    write_whole(Path(logdir) / "projector_config.pbtxt", [text.encode()])
