"""Public modules of TensorFlow 1 that only name what is defined elsewhere: one table.

It is read as the one in `paths` is; a module is there once it is imported, its names once they are
asked for.

>>> import stepscope.tf1 as tf
>>> tf.gfile.Open is tf.gfile.GFile
True
"""

from __future__ import annotations

from typing import Final

__all__ = ["NAMES"]

NAMES: Final[dict[str, list[str]]] = {
    "app": [
        "stepscope.programs.flags: run",
        "stepscope.tf1: flags",
    ],
    "contrib.framework": [
        "stepscope.layers.arg_scopes: add_arg_scope arg_scope arg_scoped_arguments has_arg_scope",
        "stepscope.layers.global_steps: create_global_step get_global_step "
        "get_or_create_global_step",
    ],
    "contrib.layers": [
        "stepscope.layers.contrib_layers: avg_pool2d batch_norm conv2d conv2d=convolution2d "
        "dropout flatten fully_connected l1_regularizer l2_regularizer max_pool2d repeat stack "
        "xavier_initializer xavier_initializer=xavier_initializer_conv2d",
    ],
    "contrib.slim": [
        "stepscope.layers.arg_scopes: add_arg_scope arg_scope arg_scoped_arguments has_arg_scope",
        "stepscope.layers.contrib_layers: avg_pool2d batch_norm conv2d conv2d=convolution2d "
        "dropout flatten fully_connected l1_regularizer l2_regularizer max_pool2d repeat stack "
        "xavier_initializer xavier_initializer=xavier_initializer_conv2d",
        "stepscope.layers.global_steps: get_global_step get_or_create_global_step",
        "stepscope.tf1: losses",
    ],
    "contrib.rnn": [
        "stepscope.layers.rnn: static_bidirectional_rnn static_rnn",
        "stepscope.layers.rnn_cells: BasicLSTMCell BasicRNNCell GRUCell LSTMCell LSTMStateTuple "
        "MultiRNNCell RNNCell",
        "stepscope.layers.rnn_wrappers: DeviceWrapper DropoutWrapper ResidualWrapper",
    ],
    "debugging": [
        "stepscope.ops.arrays.conversion: check_numerics",
        "stepscope.ops.flow.ordering: Assert",
        "stepscope.ops.math.unary: is_finite is_inf is_nan",
    ],
    "gfile": [
        "stepscope.programs.files: Copy DeleteRecursively Exists FastGFile GFile Glob "
        "IsDirectory ListDirectory MakeDirs MkDir GFile=Open Remove Rename Stat Walk",
    ],
    "initializers": [
        "stepscope.layers.initializers: constant_initializer=constant "
        "glorot_normal_initializer=glorot_normal glorot_uniform_initializer=glorot_uniform "
        "he_normal he_uniform lecun_normal lecun_uniform ones_initializer=ones "
        "random_normal_initializer=random_normal random_uniform_initializer=random_uniform "
        "truncated_normal_initializer=truncated_normal "
        "variance_scaling_initializer=variance_scaling zeros_initializer=zeros",
        "stepscope.ops.state.variable_collections: "
        "global_variables_initializer=global_variables "
        "local_variables_initializer=local_variables variables_initializer=variables",
    ],
    "io": [
        "stepscope.programs.saving.meta_graphs: write_graph",
    ],
    "io.gfile": [
        "stepscope.programs.files: GFile Copy=copy Exists=exists Glob=glob IsDirectory=isdir "
        "ListDirectory=listdir MakeDirs=makedirs MkDir=mkdir Remove=remove Rename=rename "
        "DeleteRecursively=rmtree Stat=stat Walk=walk",
    ],
    "layers": [
        "stepscope.layers.dense: Dense Dropout Flatten dense dropout flatten",
        "stepscope.layers.image_layers: AveragePooling2D Conv2D MaxPooling2D average_pooling2d "
        "conv2d max_pooling2d",
        "stepscope.layers.layer_base: Layer",
        "stepscope.layers.normalization: BatchNormalization batch_normalization",
    ],
    "linalg": [
        "stepscope.ops.arrays.diagonals: eye",
        "stepscope.ops.math.matmul: matmul tensordot",
        "stepscope.ops.nn.layer_parts: l2_normalize",
    ],
    "losses": [
        "stepscope.layers.losses: Reduction absolute_difference add_loss compute_weighted_loss "
        "get_losses get_regularization_loss get_regularization_losses get_total_loss hinge_loss "
        "huber_loss log_loss mean_squared_error sigmoid_cross_entropy softmax_cross_entropy "
        "sparse_softmax_cross_entropy",
    ],
    "metrics": [
        "stepscope.layers.metrics: accuracy mean mean_absolute_error mean_squared_error "
        "root_mean_squared_error",
    ],
    "profiler": [
        "stepscope.metadata.wire.profile_messages: AdviceProto GraphNodeProto "
        "MultiGraphNodeProto OpLogProto",
        "stepscope.programs.profiler: ProfileOptionBuilder Profiler advise profile write_op_log",
    ],
    "queue": [
        "stepscope.ops.state.queues: FIFOQueue QueueBase RandomShuffleQueue",
    ],
    "timeline": [
        "stepscope.export: TimeLiner Timeline",
    ],
}
