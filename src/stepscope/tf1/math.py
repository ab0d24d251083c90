"""`tf.math`."""

from stepscope.ops.math.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
)
from stepscope.ops.math.division import (
    div_no_nan as divide_no_nan,
)
from stepscope.ops.math.division import (
    divide,
    floordiv,
    floormod,
    mod,
    truediv,
)
from stepscope.ops.math.elementwise import (
    add,
    add_n,
    atan2,
    maximum,
    minimum,
    multiply,
    pow,
    squared_difference,
    subtract,
)
from stepscope.ops.math.reductions import (
    count_nonzero,
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
)
from stepscope.ops.math.scans import (
    argmax,
    argmin,
    cumsum,
)
from stepscope.ops.math.segments import unsorted_segment_sum
from stepscope.ops.math.sorted_segments import segment_max, segment_mean, segment_min, segment_sum
from stepscope.ops.math.unary import (
    abs,
    acos,
    asin,
    atan,
    ceil,
    conj,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    expm1,
    floor,
    imag,
    is_finite,
    is_inf,
    is_nan,
    log,
    log1p,
    negative,
    real,
    reciprocal,
    rint,
    round,
    rsqrt,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
)
from stepscope.ops.nn.activations import (
    log_sigmoid,
    log_softmax,
    sigmoid,
    softmax,
    softplus,
    softsign,
)
from stepscope.ops.nn.layer_parts import (
    in_top_k,
    l2_normalize,
    top_k,
)
from stepscope.tf1._absent import absent

__all__ = [
    "abs", "acos", "add", "add_n", "argmax", "argmin", "asin", "atan", "atan2", "ceil", "conj",
    "cos", "cosh", "count_nonzero", "cumsum", "divide", "divide_no_nan", "equal", "erf", "erfc",
    "exp", "expm1", "floor", "floordiv", "floormod", "greater", "greater_equal", "imag", "in_top_k",
    "is_finite", "is_inf", "is_nan", "l2_normalize", "less", "less_equal", "log", "log1p",
    "log_sigmoid", "log_softmax", "logical_and", "logical_not", "logical_or", "logical_xor",
    "maximum", "minimum", "mod", "multiply", "negative", "not_equal", "pow", "real", "reciprocal",
    "reduce_all", "reduce_any", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min",
    "reduce_prod", "reduce_sum", "rint", "round", "rsqrt", "segment_max",
    "segment_mean", "segment_min", "segment_sum", "sigmoid", "sign", "sin", "sinh",
    "softmax", "softplus", "softsign", "sqrt", "square", "squared_difference", "subtract", "tan",
    "tanh", "top_k", "truediv", "unsorted_segment_sum",
]  # fmt: skip

__getattr__ = absent(__name__)
