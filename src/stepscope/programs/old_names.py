"""What TensorFlow called things before 1.0, with the arguments in the order of then.

`tf.mul`, `tf.pack`, `tf.scalar_summary` and the like were renamed; `tf.concat` and `tf.split` had
their axis first, and the cross entropies their logits. Where a call can only mean the old order it
is taken as that: the new one would have made no sense of it.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from typing import Any

from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import float32
from stepscope.graph.graph import GraphKeys, add_to_collection, name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.ops.arrays import joining
from stepscope.ops.io import summaries
from stepscope.ops.math import comparison, elementwise, matmul, unary
from stepscope.ops.nn import cross_entropy
from stepscope.ops.state.variable import Variable

# -- arithmetic --------------------------------------------------------------------------------


def mul(x: Any, y: Any, name: str | None = None) -> Tensor:
    """`tf.multiply`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Session() as session:
    ...     print(session.run(tf.mul(3, 4)))
    12
    """
    return elementwise.multiply(x, y, name)


def sub(x: Any, y: Any, name: str | None = None) -> Tensor:
    """`tf.subtract`."""
    return elementwise.subtract(x, y, name)


def neg(x: Any, name: str | None = None) -> Tensor:
    """`tf.negative`."""
    return unary.negative(x, name)


def inv(x: Any, name: str | None = None) -> Tensor:
    """`tf.reciprocal`."""
    return unary.reciprocal(x, name)


def complex_abs(x: Any, name: str | None = None) -> Tensor:
    """`tf.abs` of complex numbers."""
    return unary.abs(x, name)


def select(condition: Any, t: Any, e: Any, name: str | None = None) -> Tensor:
    """`tf.where` with all three arguments: of `t` where the condition holds, else of `e`."""
    return comparison.where(condition, t, e, name)


def batch_matmul(
    x: Any, y: Any, adj_x: bool = False, adj_y: bool = False, name: str | None = None
) -> Tensor:
    """`tf.matmul` of batches of matrices."""
    return matmul.matmul(x, y, adjoint_a=adj_x, adjoint_b=adj_y, name=name)


# -- joining and cutting -----------------------------------------------------------------------


def pack(values: Any, axis: int = 0, name: str = "pack") -> Tensor:
    """`tf.stack`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Session() as session:
    ...     print(session.run(tf.pack([tf.constant(1), tf.constant(2)])))
    [1 2]
    """
    return joining.stack(values, axis, name)


def unpack(value: Any, num: int | None = None, axis: int = 0, name: str = "unpack") -> list[Tensor]:
    """`tf.unstack`."""
    return joining.unstack(value, num, axis, name)


def concat(
    values: Any = None, axis: Any = None, name: str = "concat", concat_dim: Any = None
) -> Tensor:
    """The tensors one after the other along `axis`; also `concat(axis, tensors)`, as it was once.

    >>> import stepscope.tf1 as tf
    >>> with tf.Session() as session:
    ...     print(session.run([tf.concat([[1], [2]], 0), tf.concat(0, [[1], [2]])]))
    [array([1, 2], dtype=int32), array([1, 2], dtype=int32)]
    """
    if concat_dim is not None:
        axis = concat_dim
    elif isinstance(values, numbers.Integral) and isinstance(axis, (list, tuple)):
        values, axis = axis, values
    if values is None or axis is None:
        raise TypeError("tf.concat needs both `values` (a list of tensors) and `axis`.")
    return joining.concat(values, axis, name)


def split(
    value: Any = None,
    num_or_size_splits: Any = None,
    axis: Any = 0,
    num: int | None = None,
    name: str = "split",
    split_dim: Any = None,
    num_split: int | None = None,
) -> list[Tensor]:
    """Cut into parts along `axis`; also `split(axis, number, value)`, as it was once.

    >>> import stepscope.tf1 as tf
    >>> with tf.Session() as session:
    ...     x = tf.constant([[1, 2, 3, 4]])
    ...     print(*session.run(tf.split(x, 2, 1) + tf.split(1, 2, x)))
    [[1 2]] [[3 4]] [[1 2]] [[3 4]]
    """
    if num_split is not None:
        num_or_size_splits = num_split
    if split_dim is not None:
        axis = split_dim
    elif isinstance(value, numbers.Integral) and isinstance(axis, (Tensor, Variable)):
        value, axis = axis, value
    if value is None or num_or_size_splits is None:
        raise TypeError("tf.split needs both `value` and `num_or_size_splits`.")
    return joining.split(value, num_or_size_splits, axis, num, name)


# -- summaries ---------------------------------------------------------------------------------


def _packed(
    op_type: str,
    scope: str,
    name: str | None,
    inputs: Sequence[Any],
    collections: Iterable[str] | None,
    **attrs: Any,
) -> Tensor:
    with name_scope(name, scope, inputs) as inner:
        summary = apply_op(op_type, *inputs, name=inner, **attrs).values()[0]
    for key in [GraphKeys.SUMMARIES] if collections is None else collections:
        add_to_collection(key, summary)
    return summary


def scalar_summary(
    tags: Any, values: Any, collections: Iterable[str] | None = None, name: str | None = None
) -> Tensor:
    """Numbers under tags, which are taken as they are: no name scope is put before them.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session, tf.name_scope("train"):
    ...     packed = session.run(tf.scalar_summary("loss", 0.5))
    ...     print(tf.Summary.FromString(packed).value[0].tag)
    loss
    """
    return _packed("ScalarSummary", "ScalarSummary", name, [tags, values], collections)


def histogram_summary(
    tag: Any, values: Any, collections: Iterable[str] | None = None, name: str | None = None
) -> Tensor:
    """How values are distributed, under a tag that is taken as it is."""
    return _packed("HistogramSummary", "HistogramSummary", name, [tag, values], collections)


def image_summary(
    tag: Any,
    tensor: Any,
    max_images: int = 3,
    collections: Iterable[str] | None = None,
    name: str | None = None,
) -> Tensor:
    """The first images of a batch, under a tag that is taken as it is."""
    return _packed(
        "ImageSummary", "ImageSummary", name, [tag, tensor], collections,
        max_images=max_images, bad_color=summaries.BAD_COLOR,
    )  # fmt: skip


def audio_summary(
    tag: Any,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Iterable[str] | None = None,
    name: str | None = None,
) -> Tensor:
    """The first sounds of a batch, under a tag that is taken as it is."""
    rate = convert_to_tensor(sample_rate, float32, "sample_rate")
    return _packed(
        "AudioSummaryV2", "AudioSummary", name, [tag, tensor, rate], collections,
        max_outputs=max_outputs,
    )  # fmt: skip


def merge_summary(
    inputs: Sequence[Any], collections: Iterable[str] | None = None, name: str | None = None
) -> Tensor:
    """`tf.summary.merge`."""
    return _packed("MergeSummary", "MergeSummary", name, [list(inputs)], collections or [])


def merge_all_summaries(key: str = GraphKeys.SUMMARIES) -> Tensor | None:
    """`tf.summary.merge_all`."""
    return summaries.merge_all(key)


# -- cross entropies ---------------------------------------------------------------------------


def softmax_cross_entropy_with_logits(
    *by_position: Any,
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Tensor:
    """The cross entropy of softmax(logits) and label distributions; pass both by name.

    By position, whichever depends on variables is the logits: before 1.0 these came first.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     logits = tf.Variable([[1.0, 1.0]]) * 2.0
    ...     session.run(tf.global_variables_initializer())
    ...     old = tf.nn.softmax_cross_entropy_with_logits(logits, [[0.0, 1.0]])
    ...     print(session.run(old).round(3))
    [0.693]
    """
    function = "softmax_cross_entropy_with_logits"
    labels, logits = _labels_and_logits(function, by_position, labels, logits)
    return cross_entropy.softmax_cross_entropy_with_logits(labels, logits, dim, name, axis)


def sigmoid_cross_entropy_with_logits(
    *by_position: Any, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """The cross entropy of sigmoid(logits) and labels; pass both by name.

    By position, whichever depends on variables is the logits: before 1.0 these came first.
    """
    function = "sigmoid_cross_entropy_with_logits"
    labels, logits = _labels_and_logits(function, by_position, labels, logits)
    return cross_entropy.sigmoid_cross_entropy_with_logits(labels, logits, name)


def sparse_softmax_cross_entropy_with_logits(
    *by_position: Any, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """The cross entropy of softmax(logits) and class numbers; pass both by name.

    By position, the class numbers are told by their type: before 1.0 the logits came first.
    """
    function = "sparse_softmax_cross_entropy_with_logits"
    if len(by_position) == 2 and labels is None and logits is None:
        first, second = map(convert_to_tensor, by_position)
        in_old_order = first.dtype.is_floating and second.dtype.is_integer
        labels, logits = (second, first) if in_old_order else (first, second)
        by_position = ()
    labels, logits = _labels_and_logits(function, by_position, labels, logits)
    return cross_entropy.sparse_softmax_cross_entropy_with_logits(labels, logits, name)


def _labels_and_logits(
    function: str, by_position: tuple[Any, ...], labels: Any, logits: Any
) -> tuple[Any, Any]:
    if not by_position:
        return labels, logits
    if len(by_position) == 2 and labels is None and logits is None:
        first, second = by_position
        trained = _depends_on_variables(first), _depends_on_variables(second)
        if trained == (True, False):
            return second, first
        if trained == (False, True):
            return first, second
    raise ValueError(
        f"Only call `{function}` with named arguments (labels=..., logits=..., ...). By position "
        "they came as (logits, labels) before 1.0 and as (labels, logits) later, and here it "
        "cannot be told which of them is which."
    )


def _depends_on_variables(value: Any) -> bool:
    if isinstance(value, Variable):
        return True
    stack: list[Operation] = [value.op] if isinstance(value, Tensor) else []
    seen = set(stack)
    while stack:
        op = stack.pop()
        if op.type in ("VarHandleOp", "Variable", "VariableV2"):
            return True
        found = {tensor.op for tensor in op.inputs} - seen
        seen |= found
        stack += found
    return False
