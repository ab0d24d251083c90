"""Numbers of words and classes as vectors, as `tf.contrib.layers` has it."""

from __future__ import annotations

from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import int32, int64
from stepscope.graph.graph import add_to_collection, name_scope
from stepscope.graph.operation import Tensor
from stepscope.layers.arg_scopes import add_arg_scope
from stepscope.layers.text.embeddings import embedding_lookup
from stepscope.layers.variable_scope import get_variable, variable_scope
from stepscope.ops.arrays.conversion import cast
from stepscope.ops.arrays.indexing import gather, one_hot
from stepscope.ops.arrays.joining import concat
from stepscope.ops.arrays.shaping import reshape, shape
from stepscope.ops.math.segments import unique as distinct


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:
    """For each label a row with `on_value` at its place.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.contrib.layers.one_hot_encoding([1, 0], 3)).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    with name_scope(scope, "OneHotEncoding", [labels, num_classes]):
        labels = convert_to_tensor(labels)
        if labels.dtype == int32:
            labels = cast(labels, int64)
        rows = one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        if outputs_collections:
            add_to_collection(outputs_collections, rows)
        return rows


def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Tensor:
    """For each id its row of a new table (vocab_size, embed_dim).

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     print(tf.contrib.layers.embed_sequence([[3, 1], [0, 2]], 5, 8).shape)
    (2, 2, 8)
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            f"Must specify vocab size and embedding dimension when not reusing. Got "
            f"vocab_size={vocab_size} and embed_dim={embed_dim}"
        )
    with variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        size = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        table = get_variable(
            "embeddings", size, initializer=initializer, regularizer=regularizer,
            trainable=trainable,
        )  # fmt: skip
        return embedding_lookup_unique(table, ids) if unique else embedding_lookup(table, ids)


def embedding_lookup_unique(params: Any, ids: Any, name: str | None = None) -> Tensor:
    """`tf.nn.embedding_lookup` that looks each id up once, however often it is asked for.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     table = tf.constant([[1.0], [2.0]])
    ...     session.run(tf.contrib.layers.embedding_lookup_unique(table, [[1, 1]])).tolist()
    [[[2.0], [2.0]]]
    """
    with name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = convert_to_tensor(ids)
        once, places = distinct(reshape(ids, [-1]))
        rows = gather(embedding_lookup(params, once), places)
        known = ids.shape.as_list() if ids.shape.is_fully_defined() else None
        width = rows.shape.as_list()[1:]
        if known is not None:
            return reshape(rows, [*known, *width])
        result = reshape(rows, concat([shape(ids), shape(rows)[1:]], 0))
        result.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return result
