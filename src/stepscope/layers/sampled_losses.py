"""Losses over very many classes, by a sample of them: `nce_loss` and `sampled_softmax_loss`."""

from __future__ import annotations

from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import int32, int64
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.layers.text.embeddings import embedding_lookup
from stepscope.ops.arrays import constants, conversion, indexing, joining, shaping, slicing
from stepscope.ops.math import elementwise, unary
from stepscope.ops.math.matmul import matmul
from stepscope.ops.nn.candidate_sampling import (
    compute_accidental_hits,
    log_uniform_candidate_sampler,
)
from stepscope.ops.nn.cross_entropy import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
)


def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Tensor:
    """Noise-contrastive estimation: is a class the true one, or was it sampled? Per row.

    `labels` holds `num_true` classes per row. Without `sampled_values` classes are sampled by
    `tf.nn.log_uniform_candidate_sampler`, low ones more often.

    >>> import numpy as np
    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     weights, biases = np.zeros((20, 4), np.float32), np.zeros(20, np.float32)
    ...     inputs = np.ones((2, 4), np.float32)
    ...     loss = tf.nn.nce_loss(weights, biases, [[3], [5]], inputs, 6, 20)
    ...     print(session.run(loss).shape)
    (2,)
    """
    logits, targets = _sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
        remove_accidental_hits, partition_strategy, name, None,
    )  # fmt: skip
    losses = sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name="sampled_losses")
    return _row_sums(losses)


def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Tensor:
    """Softmax cross entropy over the true classes and a sample of the others, per row.

    For training alone: to evaluate, take all classes.

    >>> import numpy as np
    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     weights, biases = np.zeros((20, 4), np.float32), np.zeros(20, np.float32)
    ...     inputs = np.ones((2, 4), np.float32)
    ...     loss = tf.nn.sampled_softmax_loss(weights, biases, [[3], [5]], inputs, 6, 20)
    ...     print(session.run(loss).shape)
    (2,)
    """
    logits, targets = _sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
        remove_accidental_hits, partition_strategy, name, seed,
    )  # fmt: skip
    targets = conversion.stop_gradient(targets, name="labels_stop_gradient")
    return softmax_cross_entropy_with_logits_v2(labels=targets, logits=logits)


def _sampled_logits(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Any,
    remove_accidental_hits: bool,
    partition_strategy: str,
    name: str,
    seed: int | None,
) -> tuple[Tensor, Tensor]:
    """The logits of the true classes and of the sampled ones, and what they should be."""
    tables = list(weights) if isinstance(weights, (list, tuple)) else [weights]
    with name_scope(name, "compute_sampled_logits", [*tables, biases, inputs, labels]):
        inputs, labels = convert_to_tensor(inputs), convert_to_tensor(labels)
        if labels.dtype.base_dtype is not int64:
            labels = conversion.cast(labels, int64)
        flat = shaping.reshape(labels, [-1])
        if sampled_values is None:
            sampled_values = log_uniform_candidate_sampler(
                labels, num_true, num_sampled, True, num_classes, seed
            )
        sampled, true_expected, sampled_expected = map(conversion.stop_gradient, sampled_values)
        sampled = conversion.cast(sampled, int64)

        def rows_of(table: Any) -> Tensor:
            found = embedding_lookup(table, ids, partition_strategy=partition_strategy)
            return conversion.cast(found, inputs.dtype.base_dtype)

        ids = joining.concat([flat, sampled], 0)
        rows = rows_of(tables)
        count = shaping.shape(flat)[0]
        true_rows = slicing.slice_(rows, [0, 0], joining.stack([count, -1]))
        sampled_rows = slicing.slice_(rows, joining.stack([shaping.shape(flat)[0], 0]), [-1, -1])
        sampled_logits = matmul(inputs, sampled_rows, transpose_b=True)
        offsets = rows_of(biases)
        true_offsets = slicing.slice_(offsets, [0], shaping.shape(flat))
        sampled_offsets = slicing.slice_(offsets, shaping.shape(flat), [-1])
        true_logits = _true_logits(inputs, true_rows, num_true)
        true_logits = true_logits + shaping.reshape(true_offsets, [-1, num_true])
        sampled_logits = sampled_logits + sampled_offsets
        if remove_accidental_hits:
            sampled_logits = _without_hits(sampled_logits, labels, sampled, num_true, num_sampled)
        true_logits = true_logits - unary.log(true_expected)
        sampled_logits = sampled_logits - unary.log(sampled_expected)
        targets = [
            constants.ones_like(true_logits) / num_true,
            constants.zeros_like(sampled_logits),
        ]
        return joining.concat([true_logits, sampled_logits], 1), joining.concat(targets, 1)


def _true_logits(inputs: Tensor, rows: Tensor, num_true: int) -> Tensor:
    """Each input times the rows of its true classes."""
    width = shaping.shape(rows)[1:2]
    per_input = shaping.reshape(rows, joining.concat([[-1, num_true], width], 0))
    products = elementwise.multiply(shaping.expand_dims(inputs, 1), per_input)
    flat = shaping.reshape(products, joining.concat([[-1], width], 0))
    return shaping.reshape(_row_sums(flat), [-1, num_true])


def _without_hits(
    logits: Tensor, labels: Tensor, sampled: Tensor, num_true: int, num_sampled: int
) -> Tensor:
    """The logits of sampled classes that are the true ones, so low that they do not count."""
    rows, places, lowest = compute_accidental_hits(labels, sampled, num_true=num_true)
    rows = shaping.reshape(rows, [-1, 1])
    places = shaping.reshape(conversion.cast(places, int32), [-1, 1])
    where = joining.concat([rows, places], 1, "sparse_indices")
    batch = shaping.shape(labels)[:1]
    shape = joining.concat([batch, shaping.expand_dims(num_sampled, 0)], 0)
    lowest = conversion.cast(lowest, logits.dtype.base_dtype)
    # A row whose true classes are equal hits twice: what is summed then is no finite number.
    least = convert_to_tensor(float(logits.dtype.min), logits.dtype.base_dtype)
    return logits + elementwise.maximum(indexing.scatter_nd(where, lowest, shape), least)


def _row_sums(x: Tensor) -> Tensor:
    ones = constants.ones(joining.stack([shaping.shape(x)[1], 1]), x.dtype.base_dtype)
    return shaping.reshape(matmul(x, ones), [-1])
