"""`tf.nn`: layers, activations, losses."""

from stepscope.layers.rnn import (
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    raw_rnn,
    static_bidirectional_rnn,
    static_rnn,
)
from stepscope.layers.sampled_losses import nce_loss, sampled_softmax_loss
from stepscope.layers.text.embeddings import (
    embedding_lookup,
    embedding_lookup_sparse,
    safe_embedding_lookup_sparse,
)
from stepscope.ops.math.reductions import l2_loss
from stepscope.ops.math.unary import tanh
from stepscope.ops.nn.activations import (
    elu,
    leaky_relu,
    log_softmax,
    relu,
    relu6,
    selu,
    sigmoid,
    softmax,
    softplus,
    softsign,
)
from stepscope.ops.nn.candidate_sampling import (
    all_candidate_sampler,
    compute_accidental_hits,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from stepscope.ops.nn.convolution import (
    conv1d,
    conv2d,
    conv2d_backprop_filter,
    conv2d_backprop_input,
    conv2d_transpose,
)
from stepscope.ops.nn.cross_entropy import (
    softmax_cross_entropy_with_logits_v2,
)
from stepscope.ops.nn.depthwise import (
    depthwise_conv2d,
    depthwise_conv2d_native,
    depthwise_conv2d_native_backprop_filter,
    depthwise_conv2d_native_backprop_input,
    separable_conv2d,
)
from stepscope.ops.nn.fused_batch_norm import fused_batch_norm
from stepscope.ops.nn.layer_parts import (
    batch_normalization,
    bias_add,
    dropout,
    in_top_k,
    l2_normalize,
    moments,
    relu_layer,
    top_k,
    xw_plus_b,
)
from stepscope.ops.nn.local_response import local_response_normalization, lrn
from stepscope.ops.nn.pooling import avg_pool, max_pool
from stepscope.programs.old_names import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from stepscope.tf1._absent import absent
from stepscope.tf1.nn import rnn_cell

__all__ = [
    "all_candidate_sampler", "avg_pool", "batch_normalization", "bias_add",
    "bidirectional_dynamic_rnn", "compute_accidental_hits", "conv1d", "conv2d",
    "conv2d_backprop_filter", "conv2d_backprop_input", "conv2d_transpose", "depthwise_conv2d",
    "depthwise_conv2d_native", "depthwise_conv2d_native_backprop_filter",
    "depthwise_conv2d_native_backprop_input", "dropout", "dynamic_rnn", "elu",
    "embedding_lookup", "embedding_lookup_sparse", "fixed_unigram_candidate_sampler",
    "fused_batch_norm", "in_top_k",
    "l2_loss", "l2_normalize", "leaky_relu", "learned_unigram_candidate_sampler",
    "local_response_normalization", "log_softmax", "log_uniform_candidate_sampler", "lrn",
    "max_pool", "moments", "nce_loss", "raw_rnn", "relu", "relu6", "relu_layer", "rnn_cell",
    "safe_embedding_lookup_sparse", "sampled_softmax_loss", "selu", "separable_conv2d", "sigmoid",
    "sigmoid_cross_entropy_with_logits", "softmax", "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2", "softplus", "softsign",
    "sparse_softmax_cross_entropy_with_logits", "static_bidirectional_rnn", "static_rnn",
    "tanh", "top_k", "uniform_candidate_sampler", "xw_plus_b",
]  # fmt: skip

__getattr__ = absent(__name__)
