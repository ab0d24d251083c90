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
        "stepscope.layers.contrib.contrib_layers: avg_pool2d batch_norm conv2d "
        "conv2d=convolution2d dropout flatten fully_connected max_pool2d repeat stack "
        "variance_scaling_initializer xavier_initializer "
        "xavier_initializer=xavier_initializer_conv2d",
        "stepscope.layers.contrib.regularizers: apply_regularization l1_l2_regularizer "
        "l1_regularizer l2_regularizer sum_regularizer",
        "stepscope.layers.text.embeddings: safe_embedding_lookup_sparse",
        "stepscope.ops.nn.layer_parts: bias_add",
    ],
    "contrib.lookup": [
        "stepscope.ops.state.table_initializers: KeyValueTensorInitializer TableInitializerBase "
        "TextFileIdTableInitializer TextFileIndex TextFileInitializer "
        "TextFileStringTableInitializer tables_initializer",
        "stepscope.ops.state.tables: HashTable LookupInterface MutableHashTable",
        "stepscope.ops.state.vocabularies: FastHashSpec HasherSpec IdTableWithHashBuckets "
        "StrongHashSpec index_table_from_file index_table_from_tensor "
        "index_to_string_table_from_file index_to_string_table_from_tensor",
    ],
    "contrib.slim": [
        "stepscope.layers.arg_scopes: add_arg_scope arg_scope arg_scoped_arguments has_arg_scope",
        "stepscope.layers.contrib.contrib_layers: avg_pool2d batch_norm conv2d "
        "conv2d=convolution2d dropout flatten fully_connected max_pool2d repeat stack "
        "variance_scaling_initializer xavier_initializer "
        "xavier_initializer=xavier_initializer_conv2d",
        "stepscope.layers.contrib.regularizers: apply_regularization l1_l2_regularizer "
        "l1_regularizer l2_regularizer sum_regularizer",
        "stepscope.layers.global_steps: get_global_step get_or_create_global_step",
        "stepscope.tf1: losses",
    ],
    "contrib.rnn": [
        "stepscope.layers.rnn: static_bidirectional_rnn static_rnn",
        "stepscope.layers.rnn_cells: BasicLSTMCell BasicRNNCell GRUCell LSTMCell LSTMStateTuple "
        "MultiRNNCell RNNCell",
        "stepscope.layers.rnn_wrappers: DeviceWrapper DropoutWrapper ResidualWrapper",
    ],
    "bitwise": [
        "stepscope.ops.math.bits: bitwise_and bitwise_or bitwise_xor invert left_shift right_shift",
    ],
    "debugging": [
        "stepscope.ops.flow.assertions: assert_equal assert_greater assert_greater_equal "
        "assert_integer assert_less assert_less_equal assert_near assert_negative "
        "assert_non_negative assert_non_positive assert_none_equal assert_positive "
        "assert_proper_iterable assert_rank assert_rank_at_least assert_rank_in "
        "assert_same_float_dtype assert_scalar assert_type is_non_decreasing is_numeric_tensor "
        "is_strictly_increasing",
        "stepscope.ops.arrays.conversion: check_numerics",
        "stepscope.ops.flow.ordering: Assert",
        "stepscope.ops.math.unary: is_finite is_inf is_nan",
    ],
    "gfile": [
        "stepscope.programs.files: Copy DeleteRecursively Exists FastGFile GFile Glob "
        "IsDirectory ListDirectory MakeDirs MkDir GFile=Open Remove Rename Stat Walk",
    ],
    "image": [
        "stepscope.ops.images.image_files: decode_bmp decode_gif decode_image decode_jpeg "
        "decode_png encode_jpeg encode_png extract_jpeg_shape",
        "stepscope.ops.images.resizing: ResizeMethod resize_bilinear resize_images "
        "resize_images=resize resize_nearest_neighbor",
    ],
    "initializers": [
        "stepscope.layers.initializers: constant_initializer=constant "
        "glorot_normal_initializer=glorot_normal glorot_uniform_initializer=glorot_uniform "
        "he_normal he_uniform lecun_normal lecun_uniform ones_initializer=ones "
        "random_normal_initializer=random_normal random_uniform_initializer=random_uniform "
        "truncated_normal_initializer=truncated_normal "
        "variance_scaling_initializer=variance_scaling zeros_initializer=zeros",
        "stepscope.ops.state.table_initializers: tables_initializer",
        "stepscope.ops.state.variable_collections: "
        "global_variables_initializer=global_variables "
        "local_variables_initializer=local_variables variables_initializer=variables",
    ],
    "io": [
        "stepscope.ops.images.image_files: decode_bmp decode_gif decode_image decode_jpeg "
        "decode_png encode_jpeg encode_png extract_jpeg_shape",
        "stepscope.ops.io.decoding: decode_base64 decode_compressed decode_csv decode_raw "
        "encode_base64 parse_tensor serialize_tensor",
        "stepscope.ops.io.feature_configs: FixedLenFeature FixedLenSequenceFeature SparseFeature "
        "VarLenFeature",
        "stepscope.ops.io.files: matching_files read_file write_file",
        "stepscope.ops.io.parsing: parse_example parse_single_example "
        "parse_single_sequence_example parse_sequence_example",
        "stepscope.ops.state.queues: PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue",
        "stepscope.programs.record_files: TFRecordCompressionType TFRecordOptions TFRecordWriter "
        "tf_record_iterator",
        "stepscope.programs.saving.meta_graphs: write_graph",
    ],
    "io.gfile": [
        "stepscope.programs.files: GFile Copy=copy Exists=exists Glob=glob IsDirectory=isdir "
        "ListDirectory=listdir MakeDirs=makedirs MkDir=mkdir Remove=remove Rename=rename "
        "DeleteRecursively=rmtree Stat=stat Walk=walk",
    ],
    "layers": [
        "stepscope.layers.convolutions.image_layers: AveragePooling2D Conv2D MaxPooling2D "
        "average_pooling2d conv2d max_pooling2d",
        "stepscope.layers.dense: Dense Dropout Flatten dense dropout flatten",
        "stepscope.layers.layer_base: Layer",
        "stepscope.layers.normalization: BatchNormalization batch_normalization",
    ],
    "linalg": [
        "stepscope.ops.arrays.diagonals: diag=tensor_diag diag_part=tensor_diag_part eye "
        "matrix_band_part=band_part matrix_diag=diag matrix_diag_part=diag_part "
        "matrix_set_diag=set_diag",
        "stepscope.ops.linalg.composed: cholesky_solve logdet matrix_solve_ls=lstsq norm trace",
        "stepscope.ops.linalg.factors: cholesky qr self_adjoint_eig=eigh "
        "self_adjoint_eigvals=eigvalsh svd",
        "stepscope.ops.linalg.matrices: adjoint matrix_transpose=transpose",
        "stepscope.ops.linalg.solving: matrix_determinant=det matrix_inverse=inv "
        "matrix_solve=solve matrix_triangular_solve=triangular_solve slogdet",
        "stepscope.ops.math.einsum: einsum",
        "stepscope.ops.math.matmul: matmul tensordot",
        "stepscope.ops.nn.layer_parts: l2_normalize",
    ],
    "lookup": [
        "stepscope.ops.state.table_initializers: KeyValueTensorInitializer TextFileIndex "
        "TextFileInitializer",
        "stepscope.ops.state.tables: StaticHashTable",
        "stepscope.ops.state.vocabularies: StaticVocabularyTable",
    ],
    "lookup.experimental": ["stepscope.ops.state.tables: MutableHashTable"],
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
    "nest": [
        "stepscope.programs.nest: assert_same_structure flatten is_sequence=is_nested "
        "map_structure pack_sequence_as",
    ],
    "python_io": [
        "stepscope.programs.record_files: TFRecordCompressionType TFRecordOptions TFRecordWriter "
        "tf_record_iterator",
    ],
    "queue": [
        "stepscope.ops.state.queues: FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase "
        "RandomShuffleQueue",
    ],
    "sparse": [
        "stepscope.ops.math.sorted_segments: sparse_segment_mean=segment_mean "
        "sparse_segment_sqrt_n=segment_sqrt_n sparse_segment_sum=segment_sum",
        "stepscope.graph.sparse_tensor: SparseTensor",
        "stepscope.ops.arrays.sparse_places: sparse_fill_empty_rows=fill_empty_rows "
        "sparse_mask=mask sparse_merge=merge sparse_reshape=reshape sparse_retain=retain "
        "sparse_slice=slice sparse_softmax=softmax sparse_to_indicator=to_indicator "
        "sparse_transpose=transpose",
        "stepscope.ops.arrays.sparse_tensors: sparse_add=add sparse_concat=concat "
        "sparse_placeholder=placeholder sparse_reduce_max=reduce_max "
        "sparse_reduce_sum=reduce_sum sparse_reorder=reorder sparse_split=split "
        "sparse_tensor_dense_matmul=matmul sparse_tensor_to_dense=to_dense "
        "sparse_from_dense=from_dense sparse_tensor_dense_matmul=sparse_dense_matmul",
    ],
    "strings": [
        "stepscope.ops.arrays.strings: as_string string_join=join reduce_join",
        "stepscope.ops.io.checkpoint_ops: regex_full_match",
        "stepscope.ops.text.characters: string_format=format string_length=length "
        "string_lower=lower string_strip=strip string_to_number=to_number string_upper=upper "
        "substr",
        "stepscope.ops.text.hash_buckets: string_to_hash_bucket=to_hash_bucket "
        "string_to_hash_bucket_fast=to_hash_bucket_fast "
        "string_to_hash_bucket_strong=to_hash_bucket_strong",
        "stepscope.ops.text.regular_expressions: regex_replace",
        "stepscope.ops.text.splitting: split",
    ],
    "timeline": [
        "stepscope.export: TimeLiner Timeline",
    ],
}
