"""The functions and classes that build nodes, as TensorFlow 1 has them at its top level."""

from stepscope.graph.sparse_tensor import SparseTensor, SparseTensorValue
from stepscope.layers.clipping import (
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    global_norm,
)
from stepscope.layers.initializers import (
    constant_initializer,
    glorot_normal_initializer,
    glorot_uniform_initializer,
    ones_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    variance_scaling_initializer,
    zeros_initializer,
)
from stepscope.layers.number_checks import add_check_numerics_ops, verify_tensor_all_finite
from stepscope.layers.variable_scope import (
    AUTO_REUSE,
    VariableScope,
    get_local_variable,
    get_variable,
    get_variable_scope,
    variable_scope,
)
from stepscope.ops.arrays.constants import (
    constant,
    fill,
    lin_space,
    linspace,
    ones,
    ones_like,
    placeholder,
    placeholder_with_default,
    range,
    zeros,
    zeros_like,
)
from stepscope.ops.arrays.conversion import (
    bitcast,
    cast,
    check_numerics,
    ensure_shape,
    identity,
    identity_n,
    stop_gradient,
    to_double,
    to_float,
    to_int32,
    to_int64,
)
from stepscope.ops.arrays.diagonals import (
    diag,
    diag_part,
    eye,
    matrix_band_part,
    matrix_diag,
    matrix_diag_part,
    matrix_set_diag,
)
from stepscope.ops.arrays.indexing import (
    batch_gather,
    gather,
    gather_nd,
    one_hot,
    scatter_nd,
)
from stepscope.ops.arrays.joining import (
    stack,
    unstack,
)
from stepscope.ops.arrays.masks import boolean_mask, sequence_mask
from stepscope.ops.arrays.padding import (
    pad,
    reverse,
    reverse_sequence,
    reverse_v2,
    tile,
)
from stepscope.ops.arrays.partitions import dynamic_partition, dynamic_stitch
from stepscope.ops.arrays.shaping import (
    broadcast_to,
    expand_dims,
    invert_permutation,
    rank,
    reshape,
    shape,
    shape_n,
    size,
    squeeze,
    transpose,
)
from stepscope.ops.arrays.slicing import slice_ as slice
from stepscope.ops.arrays.slicing import strided_slice
from stepscope.ops.arrays.sparse_places import (
    sparse_fill_empty_rows,
    sparse_mask,
    sparse_merge,
    sparse_reshape,
    sparse_retain,
    sparse_slice,
    sparse_softmax,
    sparse_to_indicator,
    sparse_transpose,
)
from stepscope.ops.arrays.sparse_tensors import (
    sparse_add,
    sparse_concat,
    sparse_placeholder,
    sparse_reduce_max,
    sparse_reduce_sum,
    sparse_reorder,
    sparse_split,
    sparse_tensor_dense_matmul,
    sparse_tensor_to_dense,
    sparse_to_dense,
)
from stepscope.ops.arrays.strings import (
    as_string,
    reduce_join,
    string_join,
)
from stepscope.ops.flow.assertions import (
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_integer,
    assert_less,
    assert_less_equal,
    assert_near,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
    assert_proper_iterable,
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
    assert_same_float_dtype,
    assert_scalar,
    assert_type,
    is_non_decreasing,
    is_numeric_tensor,
    is_strictly_increasing,
)
from stepscope.ops.flow.conditionals import case, cond
from stepscope.ops.flow.functional_loops import foldl, foldr, map_fn, scan
from stepscope.ops.flow.gradients import gradients
from stepscope.ops.flow.loops import while_loop
from stepscope.ops.flow.ordering import (
    Assert,
    Print,
    group,
    no_op,
    tuple,
)
from stepscope.ops.flow.tensor_array import TensorArray
from stepscope.ops.io.decoding import (
    decode_base64,
    decode_compressed,
    decode_csv,
    decode_raw,
    encode_base64,
    parse_tensor,
    serialize_tensor,
)
from stepscope.ops.io.feature_configs import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
)
from stepscope.ops.io.files import matching_files, read_file, write_file
from stepscope.ops.io.parsing import (
    parse_example,
    parse_single_example,
    parse_single_sequence_example,
)
from stepscope.ops.io.readers import (
    FixedLengthRecordReader,
    IdentityReader,
    ReaderBase,
    TextLineReader,
    TFRecordReader,
    WholeFileReader,
)
from stepscope.ops.linalg.composed import cholesky_solve, matrix_solve_ls, norm, trace
from stepscope.ops.linalg.factors import cholesky, qr, self_adjoint_eig, self_adjoint_eigvals, svd
from stepscope.ops.linalg.matrices import matrix_transpose
from stepscope.ops.linalg.solving import (
    matrix_determinant,
    matrix_inverse,
    matrix_solve,
    matrix_triangular_solve,
)
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
    where,
    where_v2,
)
from stepscope.ops.math.division import (
    div,
    div_no_nan,
    divide,
    floor_div,
    floordiv,
    floormod,
    mod,
    realdiv,
    truediv,
    truncatediv,
    truncatemod,
)
from stepscope.ops.math.einsum import einsum
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
from stepscope.ops.math.matmul import matmul, tensordot
from stepscope.ops.math.random import (
    get_seed,
    multinomial,
    random_normal,
    random_shuffle,
    random_uniform,
    set_random_seed,
    truncated_normal,
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
from stepscope.ops.math.scans import arg_max, arg_min, argmax, argmin, cumprod, cumsum
from stepscope.ops.math.segments import unique, unique_with_counts, unsorted_segment_sum
from stepscope.ops.math.sorted_segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_sum,
    sparse_segment_mean,
    sparse_segment_sqrt_n,
    sparse_segment_sum,
)
from stepscope.ops.math.unary import (
    abs,
    acos,
    asin,
    atan,
    ceil,
    complex,
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
from stepscope.ops.nn.activations import log_sigmoid, sigmoid
from stepscope.ops.python_functions import numpy_function, py_func
from stepscope.ops.state.counting import count_up_to
from stepscope.ops.state.queues import (
    FIFOQueue,
    PaddingFIFOQueue,
    PriorityQueue,
    QueueBase,
    RandomShuffleQueue,
)
from stepscope.ops.state.table_initializers import initialize_all_tables, tables_initializer
from stepscope.ops.state.variable import (
    Variable,
    assign,
    assign_add,
    assign_sub,
    is_variable_initialized,
    scatter_add,
    scatter_sub,
    scatter_update,
)
from stepscope.ops.state.variable_collections import (
    all_variables,
    global_variables,
    global_variables_initializer,
    initialize_all_variables,
    initialize_local_variables,
    initialize_variables,
    local_variables,
    local_variables_initializer,
    model_variables,
    moving_average_variables,
    report_uninitialized_variables,
    trainable_variables,
    variables_initializer,
)
from stepscope.ops.text.characters import string_strip, string_to_number, substr
from stepscope.ops.text.hash_buckets import (
    string_to_hash_bucket,
    string_to_hash_bucket_fast,
    string_to_hash_bucket_strong,
)
from stepscope.ops.text.regular_expressions import regex_replace
from stepscope.ops.text.splitting import string_split
from stepscope.programs.old_names import (
    audio_summary,
    batch_matmul,
    complex_abs,
    concat,
    histogram_summary,
    image_summary,
    inv,
    merge_all_summaries,
    merge_summary,
    mul,
    neg,
    pack,
    scalar_summary,
    select,
    split,
    sub,
    unpack,
)

__all__ = [
    "AUTO_REUSE", "Assert", "FIFOQueue", "FixedLenFeature", "FixedLenSequenceFeature",
    "FixedLengthRecordReader", "IdentityReader", "PaddingFIFOQueue", "Print", "PriorityQueue",
    "QueueBase", "RandomShuffleQueue", "ReaderBase", "SparseFeature", "SparseTensor",
    "SparseTensorValue", "TFRecordReader", "TensorArray", "TextLineReader", "VarLenFeature",
    "Variable", "VariableScope", "WholeFileReader", "abs", "acos", "add", "add_check_numerics_ops",
    "add_n", "all_variables", "arg_max", "arg_min", "argmax", "argmin", "as_string", "asin",
    "assert_equal", "assert_greater", "assert_greater_equal", "assert_integer", "assert_less",
    "assert_less_equal", "assert_near", "assert_negative", "assert_non_negative",
    "assert_non_positive", "assert_none_equal", "assert_positive", "assert_proper_iterable",
    "assert_rank", "assert_rank_at_least", "assert_rank_in", "assert_same_float_dtype",
    "assert_scalar", "assert_type", "assign", "assign_add", "assign_sub", "atan", "atan2",
    "audio_summary", "batch_gather", "batch_matmul", "bitcast", "boolean_mask", "broadcast_to",
    "case", "cast", "ceil", "check_numerics", "cholesky", "cholesky_solve", "clip_by_global_norm",
    "clip_by_norm", "clip_by_value", "complex", "complex_abs", "concat", "cond", "conj", "constant",
    "constant_initializer", "cos", "cosh", "count_nonzero", "count_up_to", "cumprod", "cumsum",
    "decode_base64", "decode_compressed", "decode_csv", "decode_raw", "diag", "diag_part", "div",
    "div_no_nan", "divide", "dynamic_partition", "dynamic_stitch", "einsum", "encode_base64",
    "ensure_shape", "equal", "erf", "erfc", "exp", "expand_dims", "expm1", "eye", "fill", "floor",
    "floor_div", "floordiv", "floormod", "foldl", "foldr", "gather", "gather_nd",
    "get_local_variable", "get_seed", "get_variable", "get_variable_scope", "global_norm",
    "global_variables", "global_variables_initializer", "glorot_normal_initializer",
    "glorot_uniform_initializer", "gradients", "greater", "greater_equal", "group",
    "histogram_summary", "identity", "identity_n", "imag", "image_summary", "initialize_all_tables",
    "initialize_all_variables", "initialize_local_variables", "initialize_variables", "inv",
    "invert_permutation", "is_finite", "is_inf", "is_nan", "is_non_decreasing", "is_numeric_tensor",
    "is_strictly_increasing", "is_variable_initialized", "less", "less_equal", "lin_space",
    "linspace", "local_variables", "local_variables_initializer", "log", "log1p", "log_sigmoid",
    "logical_and", "logical_not", "logical_or", "logical_xor", "map_fn", "matching_files", "matmul",
    "matrix_band_part", "matrix_determinant", "matrix_diag", "matrix_diag_part", "matrix_inverse",
    "matrix_set_diag", "matrix_solve", "matrix_solve_ls", "matrix_transpose",
    "matrix_triangular_solve", "maximum", "merge_all_summaries", "merge_summary", "minimum", "mod",
    "model_variables", "moving_average_variables", "mul", "multinomial", "multiply", "neg",
    "negative", "no_op", "norm", "not_equal", "numpy_function", "one_hot", "ones",
    "ones_initializer", "ones_like", "pack", "pad", "parse_example", "parse_single_example",
    "parse_single_sequence_example", "parse_tensor", "placeholder", "placeholder_with_default",
    "pow", "py_func", "qr", "random_normal", "random_normal_initializer", "random_shuffle",
    "random_uniform", "random_uniform_initializer", "range", "rank", "read_file", "real", "realdiv",
    "reciprocal", "reduce_all", "reduce_any", "reduce_join", "reduce_logsumexp", "reduce_max",
    "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum", "regex_replace",
    "report_uninitialized_variables", "reshape", "reverse", "reverse_sequence", "reverse_v2",
    "rint", "round", "rsqrt", "scalar_summary", "scan", "scatter_add", "scatter_nd", "scatter_sub",
    "scatter_update", "segment_max", "segment_mean", "segment_min", "segment_sum", "select",
    "self_adjoint_eig", "self_adjoint_eigvals", "sequence_mask", "serialize_tensor",
    "set_random_seed", "shape", "shape_n", "sigmoid", "sign", "sin", "sinh", "size", "slice",
    "sparse_add", "sparse_concat", "sparse_fill_empty_rows", "sparse_mask", "sparse_merge",
    "sparse_placeholder", "sparse_reduce_max", "sparse_reduce_sum", "sparse_reorder",
    "sparse_reshape", "sparse_retain", "sparse_segment_mean", "sparse_segment_sqrt_n",
    "sparse_segment_sum", "sparse_slice", "sparse_softmax", "sparse_split",
    "sparse_tensor_dense_matmul", "sparse_tensor_to_dense", "sparse_to_dense",
    "sparse_to_indicator", "sparse_transpose", "split", "sqrt", "square", "squared_difference",
    "squeeze", "stack", "stop_gradient", "strided_slice", "string_join", "string_split",
    "string_strip", "string_to_hash_bucket", "string_to_hash_bucket_fast",
    "string_to_hash_bucket_strong", "string_to_number", "sub", "substr", "subtract", "svd",
    "tables_initializer", "tan", "tanh", "tensordot", "tile", "to_double", "to_float", "to_int32",
    "to_int64", "trace", "trainable_variables", "transpose", "truediv", "truncated_normal",
    "truncated_normal_initializer", "truncatediv", "truncatemod", "tuple", "unique",
    "unique_with_counts", "unpack", "unsorted_segment_sum", "unstack", "variable_scope",
    "variables_initializer", "variance_scaling_initializer", "verify_tensor_all_finite", "where",
    "where_v2", "while_loop", "write_file", "zeros", "zeros_initializer", "zeros_like",
]  # fmt: skip
