"""What one execution of an op takes: floating-point operations and bytes, by its shapes.

Three tables tell floating-point operations by op type. `_TENSORFLOW` has the types for which
TensorFlow registers statistics of its own (`tf.profiler`'s float operations), with its numbers, odd
ones included. `_OURS` has types for which it registers none: the arithmetic that the formula of the
op asks for, a function such as `exp` counting as one operation, as TensorFlow counts `Log` and
`Pow`. `_NONE` are types that move or make data and calculate nothing. Every other type is not
known, which is not the same as none.

Bytes are those of every input and output, once each: the least that has to move between memory and
the processor if nothing stays in a cache. Types that hand on what they got, and those that touch a
part of an input only, have rules of their own.

Worked example, a dense layer of 100 units on 32 rows of 784:

>>> x, w = KnownTensor((32, 784), 100_352), KnownTensor((784, 100), 313_600)
>>> op_work(OpCall("MatMul", (x, w), (KnownTensor((32, 100), 12_800),)))
OpWork(flops=5017600, bytes=426752, counted_by='tensorflow', lacking='')
>>> op_work(OpCall("PyFunc", (x,), (x,)))
OpWork(flops=None, bytes=200704, counted_by='', lacking='what PyFunc calculates is not known')
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

__all__ = ["KnownTensor", "OpCall", "OpWork", "known_op_types", "op_work", "tensorflow_flops"]

Shape: TypeAlias = tuple[int, ...]


class KnownTensor(NamedTuple):
    """A tensor that an op was given or gave; None is what nobody knows."""

    shape: Shape | None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class OpWork:
    """What an execution takes.

    `flops` is None where the op type is not known or something is `lacking`, which then says what;
    `bytes` is None where a size is. `counted_by` says by whose rule the operations are counted:
    "tensorflow", "stepscope", or "" where they are not.
    """

    flops: int | None
    bytes: int | None
    counted_by: str
    lacking: str = ""


class _LackingError(Exception):
    """Something that a rule needs is not known."""


@dataclass(frozen=True, slots=True)
class OpCall:
    """An op of some type, with what it was given and what it gave.

    `attrs` are the node's attributes, as a `NodeDef` has them; None where no graph was recorded.
    Rules then go by shapes alone, and by TensorFlow's defaults (data is in NHWC order). Control
    inputs are not among `inputs`.
    """

    op: str
    inputs: tuple[KnownTensor, ...]
    outputs: tuple[KnownTensor, ...]
    attrs: Mapping[str, Any] | None = None

    def given(self, place: int) -> Shape:
        return _shape(self.inputs, place, "input")

    def gave(self, place: int = 0) -> Shape:
        return _shape(self.outputs, place, "output")

    def elements_given(self, place: int = 0) -> int:
        return math.prod(self.given(place))

    def elements_gave(self, place: int = 0) -> int:
        return math.prod(self.gave(place))

    def attr(self, name: str) -> Any:
        """An attribute's value; an empty message where the node does not have it."""
        if self.attrs is None:
            raise _LackingError(f"the graph is not there, which has {name!r} of {self.op}")
        if name not in self.attrs:
            raise _LackingError(f"the node has no {name!r}")
        return self.attrs[name]

    @property
    def window(self) -> int:
        """How many elements one result of a pool is made of."""
        sizes: list[int] = list(self.attr("ksize").list.i)
        return math.prod(sizes)

    def is_set(self, name: str) -> bool:
        return bool(self.attrs is not None and name in self.attrs and self.attrs[name].b)

    @property
    def channels_first(self) -> bool:
        return bool(
            self.attrs is not None
            and "data_format" in self.attrs
            and self.attrs["data_format"].s in (b"NCHW", b"NCDHW")
        )


def _shape(tensors: tuple[KnownTensor, ...], place: int, what: str) -> Shape:
    shape = tensors[place].shape if place < len(tensors) else None
    if shape is None or any(size < 0 for size in shape):
        raise _LackingError(f"the shape of its {what} {place} is not known")
    return shape


_Rule: TypeAlias = Callable[[OpCall], int]


def op_work(call: OpCall) -> OpWork:
    """Operations and bytes of one execution; see the module's text."""
    op = _plain_type(call.op)
    moved = _bytes(op, call)
    rule, counted_by = _OURS.get(op), "stepscope"
    registered = _TENSORFLOW.get(op)
    if registered is not None and not _miscounted(op, call):
        rule, counted_by = registered, "tensorflow"
    if op in _NONE:
        return OpWork(0, moved, "stepscope")
    if rule is None:
        return OpWork(None, moved, "", f"what {call.op} calculates is not known")
    try:
        return OpWork(rule(call), moved, counted_by)
    except _LackingError as error:
        return OpWork(None, moved, "", str(error))
    except (IndexError, ZeroDivisionError):
        return OpWork(None, moved, "", f"its shapes are not those of {call.op}")


def tensorflow_flops(call: OpCall) -> int | None:
    """What TensorFlow's own statistics say: 0 where it has none, None where it cannot tell.

    It cannot where a shape is not known, nor of images that are not in NHWC order; a node without
    `data_format` is one of these.

    >>> square = KnownTensor((8, 8), 256)
    >>> tensorflow_flops(OpCall("Tanh", (square,), (square,), {}))
    0
    """
    rule = _TENSORFLOW.get(call.op)
    if rule is None:
        return 0
    if call.op in _IMAGES_ROWS_FIRST:
        attrs = call.attrs or {}
        if "data_format" not in attrs or attrs["data_format"].s != b"NHWC":
            return None
    try:
        return rule(call)
    except (_LackingError, IndexError, ZeroDivisionError):
        return None


def known_op_types() -> frozenset[str]:
    """The op types whose floating-point operations are known, those that have none included."""
    return frozenset({*_TENSORFLOW, *_OURS, *_NONE})


def _plain_type(op: str) -> str:
    """The type that oneDNN's kernels stand in for: `MatMul` of `_MklNativeMatMul`."""
    for prefix in ("_MklNative", "_Mkl"):
        if op.startswith(prefix):
            plain = op.removeprefix(prefix)
            return f"_{plain}" if plain.startswith("Fused") and f"_{plain}" in _OURS else plain
    return op


def _miscounted(op: str, call: OpCall) -> bool:
    """Whether TensorFlow's rule would be wrong here, or refuse: then ours is used."""
    if op in _BATCHES:
        return call.attrs is None or call.is_set("adj_x")
    return op in _IMAGES_ROWS_FIRST and (call.attrs is None or call.channels_first)


# -- what rules are made of --------------------------------------------------------------------


def _per_input(count: int, place: int = 0) -> _Rule:
    return lambda call: call.elements_given(place) * count


def _per_output(count: int, place: int = 0) -> _Rule:
    return lambda call: call.elements_gave(place) * count


def _reduction(each: int = 1, last: int = 0) -> _Rule:
    """`each` per element but the first of every result, and `last` for every result."""
    return lambda call: call.elements_given() * each + call.elements_gave() * (last - each)


def _matmul(call: OpCall) -> int:
    left, out = call.given(0), call.gave()
    if call.attrs is None:
        inner = math.prod(left) // out[0] if out[0] else 0
    else:
        inner = left[0] if call.is_set("transpose_a") else left[1]
    return 2 * inner * math.prod(out)


def _batch_matmul_as_registered(call: OpCall) -> int:
    """TensorFlow looks for an attribute that the op does not have: `adj_x` makes no difference."""
    left = call.given(0)
    inner = left[-2] if call.is_set("transpose_a") else left[-1]
    return 2 * inner * call.elements_gave()


def _batch_matmul(call: OpCall) -> int:
    left, out = call.given(0), call.gave()
    rows = out[-2] * math.prod(left[:-2])
    return 2 * (math.prod(left) // rows if rows else 0) * math.prod(out)


def _convolution(spatial: int, *, per_channel: bool = False) -> _Rule:
    """By the filter: its spatial sizes, and the input channels unless each has its own filter."""

    def count(call: OpCall) -> int:
        call.given(0)
        window = call.given(1)
        inner = math.prod(window[: spatial if per_channel else spatial + 1])
        return 2 * call.elements_gave() * inner

    return count


def _conv2d_gradient_as_registered(*, of_input: bool) -> _Rule:
    """By the size of the image and the strides, whatever the padding."""

    def count(call: OpCall) -> int:
        if of_input:
            image, window = call.gave(), call.given(1)
        else:
            image, window = call.given(0), call.gave()
        strides = call.attr("strides").list.i
        steps = image[-1] * strides[1] * strides[2]
        return int(2 * math.prod(image) * math.prod(window) / steps)

    return count


def _convolution_gradient(spatial: int, *, of_input: bool, per_channel: bool = False) -> _Rule:
    """As many products as forward: one per place of the result and element of the window."""

    def count(call: OpCall) -> int:
        window = call.given(1) if of_input else call.gave()
        inner = math.prod(window[: spatial if per_channel else spatial + 1])
        return 2 * call.elements_given(2) * inner

    return count


def _pool(call: OpCall) -> int:
    return call.window * call.elements_gave()


def _average_pool_gradient(call: OpCall) -> int:
    return 2 * call.window * call.elements_given(1)


def _max_pool_gradient(call: OpCall) -> int:
    return (call.window + 1) * call.elements_given(1)


def _add_n(call: OpCall) -> int:
    return call.elements_given() * (len(call.inputs) - 1) if call.inputs else 0


def _fused(product: _Rule) -> _Rule:
    """A product, and for every element of the result what was fused to it."""

    def count(call: OpCall) -> int:
        if call.attrs is None or "fused_ops" not in call.attrs:
            after = max(len(call.inputs) - 2, 0)
        else:
            after = len(call.attrs["fused_ops"].list.s)
        return product(call) + after * call.elements_gave()

    return count


def _unary_chain(call: OpCall) -> int:
    return len(call.attr("op_names").list.s) * call.elements_gave()


def _batch_norm(extra: int = 0) -> _Rule:
    """Mean 1, variance 3, scaling and shifting 2 per element; with given statistics the last."""

    def count(call: OpCall) -> int:
        attrs = call.attrs
        training = attrs is None or "is_training" not in attrs or attrs["is_training"].b
        return call.elements_given(0) * ((6 if training else 2) + extra)

    return count


def _local_response(call: OpCall) -> int:
    """Squares added up over the neighbours, then scale, shift, power and product."""
    around: int = 2 * call.attr("depth_radius").i + 1
    return call.elements_given() * (2 * around + 4)


def _lstm(call: OpCall, x: int, weights: int, per_cell: int, products: int) -> int:
    """`products` times the gates' product, and `per_cell` for each element of the state."""
    *time, rows, _ = call.given(x)
    inner, gates = call.given(weights)
    steps = math.prod(time) * rows
    return steps * (products * 2 * inner * gates + per_cell * gates // 4)


def _gru_cell(call: OpCall) -> int:
    rows = call.given(0)[0]
    inner, cells = call.given(3)
    return rows * cells * (3 * 2 * inner + 17)


# -- floating-point operations by type ---------------------------------------------------------

_BATCHES = frozenset({"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"})
_IMAGES_ROWS_FIRST = frozenset(
    {
        "AvgPool",
        "AvgPoolGrad",
        "Conv2DBackpropFilter",
        "Conv2DBackpropInput",
        "MaxPool",
        "MaxPoolGrad",
    }
)
"""Types that TensorFlow counts in NHWC order only."""

_TENSORFLOW: dict[str, _Rule] = {
    **dict.fromkeys(
        ("AssignAdd", "AssignSub", "BiasAdd", "Log", "Neg", "Reciprocal", "Square"), _per_input(1)
    ),
    **dict.fromkeys(
        (
            "Add", "AddV2", "Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "Maximum",
            "Minimum", "Mul", "NotEqual", "Pow", "RealDiv", "Sub",
        ),
        _per_output(1),
    ),
    **dict.fromkeys(("ArgMax", "ArgMin", "BiasAddGrad", "Sum"), _reduction()),
    **dict.fromkeys(_BATCHES, _batch_matmul_as_registered),
    **dict.fromkeys(("AvgPool", "MaxPool"), _pool),
    "AddN": _add_n,
    "AvgPoolGrad": _average_pool_gradient,
    "Conv2D": _convolution(2),
    "Conv2DBackpropFilter": _conv2d_gradient_as_registered(of_input=False),
    "Conv2DBackpropInput": _conv2d_gradient_as_registered(of_input=True),
    "Conv3D": _convolution(3),
    "DepthwiseConv2dNative": _convolution(2, per_channel=True),
    "Dilation2D": _convolution(2, per_channel=True),
    "L2Loss": lambda call: call.elements_given() * 3 - 1,
    "MatMul": _matmul,
    "MaxPoolGrad": _max_pool_gradient,
    "Mean": _reduction(last=1),
    "Rsqrt": _per_input(2),
    "RsqrtGrad": _per_output(4),
    "Softmax": _per_input(5),
    "SquaredDifference": _per_output(2),
}  # fmt: skip

_UPDATES = {
    "GradientDescent": (2, 2, 1),
    "Momentum": (3, 4, 2),
    "KerasMomentum": (3, 4, 2),
    "Adagrad": (3, 6, 2),
    "AdagradV2": (4, 7, 2),
    "RMSProp": (7, 11, 3),
    "CenteredRMSProp": (8, 15, 4),
    "Adam": (9, 12, 3),
}
"""Optimizers: which input is the gradient, operations per element, variables that are updated.

The operations are those of the formulas in TensorFlow's documentation of the ops. Adam, of which
the corrected rate is one number for all: m + (g - m) * (1 - b1), v + (g * g - v) * (1 - b2) and
var - rate * m / (sqrt(v) + epsilon) are 3, 4 and 5.
"""

_OURS: dict[str, _Rule] = {
    **dict.fromkeys(
        (
            "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Ceil", "Conj",
            "Cos", "Cosh", "Digamma", "Div", "DivNoNan", "Erf", "Erfc", "Exp", "Expm1", "Floor",
            "FloorDiv", "FloorMod", "Inv", "IsFinite", "IsInf", "IsNan", "Lgamma", "Log1p", "Mod",
            "MulNoNan", "Relu", "ReluGrad", "Rint", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan",
            "Tanh", "TruncateDiv", "TruncateMod", "ApproximateEqual", "Cumsum", "Cumprod", "Range",
            "ScatterNd", "ReluGradV2", "NextAfter",
        ),
        _per_output(1),
    ),
    **dict.fromkeys(
        (
            "ClipByValue", "LeakyRelu", "LeakyReluGrad", "LinSpace", "Relu6", "Relu6Grad",
            "SoftsignGrad", "Xdivy", "Xlogy", "SqrtGrad", "EluGrad", "SeluGrad",
        ),
        _per_output(2),
    ),
    **dict.fromkeys(
        ("ComplexAbs", "Elu", "InvGrad", "ReciprocalGrad", "SigmoidGrad", "Softplus", "Softsign",
         "TanhGrad"),
        _per_output(3),
    ),
    **dict.fromkeys(("Selu", "Sigmoid", "SoftplusGrad"), _per_output(4)),
    **dict.fromkeys(("Max", "Min", "MirrorPadGrad", "Prod", "SparseSegmentSum"), _reduction()),
    "EuclideanNorm": _reduction(2, 2),
    "LogSoftmax": _per_input(5),
    "SoftmaxCrossEntropyWithLogits": _per_output(8, 1),
    "SparseSoftmaxCrossEntropyWithLogits": _per_output(6, 1),
    "CheckNumerics": _per_input(1),
    "InTopKV2": _per_input(1),
    **dict.fromkeys(("SegmentSum", "UnsortedSegmentSum"), _per_input(1)),
    **dict.fromkeys(("AssignAddVariableOp", "AssignSubVariableOp"), _per_input(1, 1)),
    **dict.fromkeys(
        ("ResourceScatterAdd", "ResourceScatterSub", "ScatterAdd", "ScatterSub"), _per_input(1, 2)
    ),
    **{
        f"{kind}{name}": _per_input(each, gradient)
        for name, (gradient, each, _) in _UPDATES.items()
        for kind in ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")
    },
    **dict.fromkeys(_BATCHES, _batch_matmul),
    "SparseMatMul": _matmul,
    "_FusedMatMul": _fused(_matmul),
    "_FusedConv2D": _fused(_convolution(2)),
    "_FusedDepthwiseConv2dNative": _fused(_convolution(2, per_channel=True)),
    "_FusedBatchNormEx": _batch_norm(extra=1),
    "_UnaryOpsComposition": _unary_chain,
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _batch_norm()),
    # The gradient of the shift 1, of the scale 3, and of the input 4 per element.
    **dict.fromkeys(
        ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"), _per_input(8)
    ),
    "LRN": _local_response,
    **dict.fromkeys(
        ("AvgPool", "AvgPool3D", "MaxPool", "MaxPool3D", "MaxPoolWithArgmax"), _pool
    ),
    **dict.fromkeys(("AvgPoolGrad", "AvgPool3DGrad"), _average_pool_gradient),
    **dict.fromkeys(
        ("MaxPoolGrad", "MaxPool3DGrad", "MaxPoolGradGrad", "MaxPool3DGradGrad"), _max_pool_gradient
    ),
    "Conv2DBackpropFilter": _convolution_gradient(2, of_input=False),
    "Conv2DBackpropInput": _convolution_gradient(2, of_input=True),
    "Conv3DBackpropFilterV2": _convolution_gradient(3, of_input=False),
    "Conv3DBackpropInputV2": _convolution_gradient(3, of_input=True),
    "DepthwiseConv2dNativeBackpropFilter": _convolution_gradient(
        2, of_input=False, per_channel=True
    ),
    "DepthwiseConv2dNativeBackpropInput": _convolution_gradient(
        2, of_input=True, per_channel=True
    ),
    # Three sigmoids, two tanh, the gates' biases, and three products and two sums of the state.
    "LSTMBlockCell": lambda call: _lstm(call, 0, 3, 23, 1),
    "BlockLSTM": lambda call: _lstm(call, 1, 4, 23, 1),
    "BlockLSTMV2": lambda call: _lstm(call, 1, 4, 23, 1),
    # Backwards the products are those by the weights and by the inputs: two for one. Those of a
    # single cell are ops of their own.
    "LSTMBlockCellGrad": lambda call: _lstm(call, 0, 3, 34, 0),
    "BlockLSTMGrad": lambda call: _lstm(call, 1, 4, 34, 2),
    "BlockLSTMGradV2": lambda call: _lstm(call, 1, 4, 34, 2),
    "GRUBlockCell": _gru_cell,
}  # fmt: skip

_HANDS_ON = frozenset(
    {
        "Assert", "BroadcastGradientArgs", "ConcatOffset", "Const", "ControlTrigger",
        "EnsureShape", "Enter", "Exit", "ExpandDims", "Identity", "IdentityN",
        "IsVariableInitialized", "LoopCond", "Merge", "NextIteration", "NoOp", "Placeholder",
        "PlaceholderWithDefault", "PreventGradient", "Rank", "ReadVariableOp", "RefEnter",
        "RefExit", "RefIdentity", "RefMerge", "RefNextIteration", "RefSwitch",
        "Reshape", "Shape", "ShapeN", "Size", "Snapshot", "Squeeze", "StopGradient",
        "Switch", "TensorArrayCloseV3", "TensorArrayGradV3",
        "TensorArraySizeV3", "TensorArrayV3", "VarHandleOp", "VarIsInitializedOp", "Variable",
        "VariableShape", "VariableV2", "_Arg", "_Retval", "_DeviceArg", "_DeviceRetval",
        "FIFOQueueV2", "RandomShuffleQueueV2", "QueueCloseV2", "QueueIsClosedV2", "QueueSizeV2",
        "StackCloseV2", "StackV2", "Bitcast", "DestroyResourceOp", "_SwitchN",
        "StackPushV2", "StackPopV2", "TensorArrayWriteV3", "TensorArrayReadV3",
    }
)  # fmt: skip
"""Types that make no data of their own: what they were given, a view of it, its shape, nothing."""

_NONE = _HANDS_ON | {
    "All", "Any", "Assign", "AssignVariableOp", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
    "BroadcastTo", "Cast", "Complex", "Concat", "ConcatV2", "CountUpTo", "DynamicStitch", "Fill",
    "Gather", "GatherNd", "GatherV2", "Imag", "Invert", "InvertPermutation", "ListDiff",
    "LogicalAnd", "LogicalNot", "LogicalOr", "MatrixDiagPartV3", "MatrixDiagV3", "MatrixSetDiagV3",
    "MirrorPad", "OneHot", "OnesLike", "Pack", "Pad", "PadV2", "ParallelConcat",
    "QueueDequeueManyV2", "QueueDequeueUpToV2", "QueueDequeueV2", "QueueEnqueueManyV2",
    "QueueEnqueueV2", "Real", "ResourceCountUpTo", "ResourceGather", "ResourceScatterUpdate",
    "Reverse", "ReverseSequence", "ReverseV2", "ScatterUpdate", "Select", "SelectV2", "Slice",
    "SpaceToDepth",
    "DepthToSpace", "SpaceToBatchND", "BatchToSpaceND", "Split", "SplitV", "StridedSlice",
    "StridedSliceGrad", "TensorArrayConcatV3", "TensorArrayGatherV3", "TensorArrayScatterV3",
    "TensorArraySplitV3", "Tile", "Transpose", "Unique", "UniqueWithCounts", "Unpack", "Where",
    "ZerosLike", "_HostRecv", "_HostSend", "_ParallelConcatUpdate", "_Recv", "_Send",
    "IteratorGetNext", "IteratorGetNextSync", "RandomShuffle",
}  # fmt: skip


# -- bytes -------------------------------------------------------------------------------------


def _sum(tensors: tuple[KnownTensor, ...]) -> int | None:
    total = 0
    for tensor in tensors:
        if tensor.bytes is None:
            return None
        total += tensor.bytes
    return total


_READS_WHAT_IT_GIVES = frozenset(
    {
        "Gather", "GatherNd", "GatherV2", "ResourceGather", "Slice", "StridedSlice",
        "QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2",
    }
)  # fmt: skip
"""Types that read as much of a larger input as they put out."""

_BYTES_OF_INPUT = {
    "Assign": (1, 2),
    "AssignAdd": (1, 3),
    "AssignSub": (1, 3),
    "AssignVariableOp": (1, 2),
    "AssignAddVariableOp": (1, 3),
    "AssignSubVariableOp": (1, 3),
    **dict.fromkeys(
        ("ResourceScatterAdd", "ResourceScatterSub", "ScatterAdd", "ScatterSub"), (2, 3)
    ),
    **dict.fromkeys(("ResourceScatterUpdate", "ScatterUpdate"), (2, 2)),
    **{
        f"{kind}{name}": (gradient, 2 * variables + 1)
        for name, (gradient, _, variables) in _UPDATES.items()
        for kind in ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")
    },
}
"""Types that write variables: what moves is as many times the size of this input."""


_CALLS = re.compile(
    r"(Stateful|TPU)?PartitionedCall|(Stateless)?(While|If|Case)|SymbolicGradient|RemoteCall"
)
"""Types that run other ops, which have rows of their own."""


def _bytes(op: str, call: OpCall) -> int | None:
    if op in _HANDS_ON:
        return 0
    if _CALLS.fullmatch(op):
        return None
    if op in _BYTES_OF_INPUT:
        place, times = _BYTES_OF_INPUT[op]
        size = call.inputs[place].bytes if place < len(call.inputs) else None
        return None if size is None else size * times
    given, gave = _sum(call.inputs), _sum(call.outputs)
    if op in _READS_WHAT_IT_GIVES:
        return None if gave is None else 2 * gave
    return None if given is None or gave is None else given + gave
