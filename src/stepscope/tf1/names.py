"""TensorFlow 1's public names, by module: one table. The top module is `""`.

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
    "": [
        "stepscope._messages: AttrValue Event GraphDef HistogramProto MetaGraphDef NameAttrList "
        "NodeDef SessionLog Summary SummaryMetadata",
        "stepscope.graph: DeviceSpec Dimension Graph GraphKeys Operation Tensor TensorShape "
        "add_to_collection colocate_with control_dependencies convert_to_tensor device "
        "get_collection get_collection_ref get_default_graph get_default_session import_graph_def "
        "name_scope reset_default_graph",
        "stepscope.graph.constants: constant_value=get_static_value",
        "stepscope.graph.indexed_slices: IndexedSlices",
        "stepscope.graph.shapes: dimension_value",
        "stepscope.graph.sparse_tensor: SparseTensor SparseTensorValue",
        "stepscope.graph.tensor_proto: make_ndarray",
        "stepscope.layers.clipping: clip_by_global_norm clip_by_norm clip_by_value global_norm",
        "stepscope.layers.contrib.regularizers: no_regularizer",
        "stepscope.layers.initializers: constant_initializer glorot_normal_initializer "
        "glorot_uniform_initializer ones_initializer orthogonal_initializer "
        "random_normal_initializer random_uniform_initializer truncated_normal_initializer "
        "variance_scaling_initializer zeros_initializer",
        "stepscope.layers.number_checks: add_check_numerics_ops verify_tensor_all_finite",
        "stepscope.layers.templates: make_template",
        "stepscope.layers.truth_metrics: confusion_matrix",
        "stepscope.layers.variable_scope: AUTO_REUSE VariableScope get_local_variable "
        "get_variable get_variable_scope variable_scope",
        "stepscope.metadata: RunMetadata",
        "stepscope.ops.arrays.constants: constant fill lin_space linspace ones ones_like "
        "placeholder placeholder_with_default range zeros zeros_like",
        "stepscope.ops.arrays.conversion: bitcast cast check_numerics ensure_shape identity "
        "identity_n stop_gradient to_double to_float to_int32 to_int64",
        "stepscope.ops.arrays.diagonals: diag diag_part eye matrix_band_part matrix_diag "
        "matrix_diag_part matrix_set_diag",
        "stepscope.ops.arrays.indexing: batch_gather gather gather_nd one_hot scatter_nd",
        "stepscope.ops.arrays.joining: stack unstack",
        "stepscope.ops.arrays.masks: boolean_mask sequence_mask",
        "stepscope.ops.arrays.padding: pad reverse reverse_sequence reverse_v2 tile",
        "stepscope.ops.arrays.partitions: dynamic_partition dynamic_stitch",
        "stepscope.ops.arrays.shaping: broadcast_to expand_dims invert_permutation rank reshape "
        "shape shape_n size squeeze transpose",
        "stepscope.ops.arrays.slicing: slice_=slice strided_slice",
        "stepscope.ops.arrays.sorting: argsort meshgrid sort",
        "stepscope.ops.arrays.sparse_places: sparse_fill_empty_rows sparse_mask sparse_merge "
        "sparse_reshape sparse_retain sparse_slice sparse_softmax sparse_to_indicator "
        "sparse_transpose",
        "stepscope.ops.arrays.sparse_tensors: sparse_add sparse_concat sparse_placeholder "
        "sparse_reduce_max sparse_reduce_sum sparse_reorder sparse_split "
        "sparse_tensor_dense_matmul sparse_tensor_to_dense sparse_to_dense",
        "stepscope.ops.arrays.strings: as_string reduce_join string_join",
        "stepscope.ops.flow.assertions: assert_equal assert_greater assert_greater_equal "
        "assert_integer assert_less assert_less_equal assert_near assert_negative "
        "assert_non_negative assert_non_positive assert_none_equal assert_positive "
        "assert_proper_iterable assert_rank assert_rank_at_least assert_rank_in "
        "assert_same_float_dtype assert_scalar assert_type is_non_decreasing is_numeric_tensor "
        "is_strictly_increasing",
        "stepscope.ops.flow.conditionals: case cond",
        "stepscope.ops.flow.functional_loops: foldl foldr map_fn scan",
        "stepscope.ops.flow.gradients: gradients",
        "stepscope.ops.flow.loops: while_loop",
        "stepscope.ops.flow.ordering: Assert Print group no_op tuple",
        "stepscope.ops.flow.tensor_array: TensorArray",
        "stepscope.ops.images.colours: saturate_cast",
        "stepscope.ops.images.cropping: random_crop",
        "stepscope.ops.io.decoding: decode_base64 decode_compressed decode_csv decode_raw "
        "encode_base64 parse_tensor serialize_tensor",
        "stepscope.ops.io.feature_configs: FixedLenFeature FixedLenSequenceFeature SparseFeature "
        "VarLenFeature",
        "stepscope.ops.io.files: matching_files read_file write_file",
        "stepscope.ops.io.parsing: parse_example parse_single_example "
        "parse_single_sequence_example",
        "stepscope.ops.io.readers: FixedLengthRecordReader IdentityReader ReaderBase "
        "TextLineReader TFRecordReader WholeFileReader",
        "stepscope.ops.linalg.composed: cholesky_solve matrix_solve_ls norm trace",
        "stepscope.ops.linalg.factors: cholesky qr self_adjoint_eig self_adjoint_eigvals svd",
        "stepscope.ops.linalg.matrices: matrix_transpose",
        "stepscope.ops.linalg.solving: matrix_determinant matrix_inverse matrix_solve "
        "matrix_triangular_solve",
        "stepscope.ops.math.comparison: equal greater greater_equal less less_equal logical_and "
        "logical_not logical_or logical_xor not_equal where where_v2",
        "stepscope.ops.math.division: div div_no_nan divide floor_div floordiv floormod mod "
        "realdiv truediv truncatediv truncatemod",
        "stepscope.ops.math.einsum: einsum",
        "stepscope.ops.math.elementwise: add add_n atan2 maximum minimum multiply pow "
        "squared_difference subtract",
        "stepscope.ops.math.matmul: matmul tensordot",
        "stepscope.ops.math.random: get_seed multinomial random_normal random_shuffle "
        "random_uniform set_random_seed truncated_normal",
        "stepscope.ops.math.reductions: count_nonzero reduce_all reduce_any reduce_logsumexp "
        "reduce_max reduce_mean reduce_min reduce_prod reduce_sum",
        "stepscope.ops.math.scans: arg_max arg_min argmax argmin cumprod cumsum",
        "stepscope.ops.math.segments: unique unique_with_counts unsorted_segment_sum",
        "stepscope.ops.math.sorted_segments: segment_max segment_mean segment_min segment_sum "
        "sparse_segment_mean sparse_segment_sqrt_n sparse_segment_sum",
        "stepscope.ops.math.unary: abs acos asin atan ceil complex conj cos cosh erf erfc exp "
        "expm1 floor imag is_finite is_inf is_nan log log1p negative real reciprocal rint round "
        "rsqrt sign sin sinh sqrt square tan tanh",
        "stepscope.ops.nn.activations: log_sigmoid sigmoid",
        "stepscope.ops.nn.composed_parts: accumulate_n scalar_mul",
        "stepscope.ops.python_functions: numpy_function py_func",
        "stepscope.ops.state.counting: count_up_to",
        "stepscope.ops.state.queues: FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase "
        "RandomShuffleQueue",
        "stepscope.ops.state.table_initializers: initialize_all_tables tables_initializer",
        "stepscope.ops.state.variable: Variable assign assign_add assign_sub "
        "is_variable_initialized scatter_add scatter_sub scatter_update",
        "stepscope.ops.state.variable_collections: all_variables global_variables "
        "global_variables_initializer initialize_all_variables initialize_local_variables "
        "initialize_variables local_variables local_variables_initializer model_variables "
        "moving_average_variables report_uninitialized_variables trainable_variables "
        "variables_initializer",
        "stepscope.ops.text.characters: string_strip string_to_number substr",
        "stepscope.ops.text.hash_buckets: string_to_hash_bucket string_to_hash_bucket_fast "
        "string_to_hash_bucket_strong",
        "stepscope.ops.text.regular_expressions: regex_replace",
        "stepscope.ops.text.splitting: string_split",
        "stepscope.options: ConfigProto GPUOptions GraphOptions OptimizerOptions RunOptions "
        "ThreadPoolOptionProto",
        "stepscope.programs.old_names: audio_summary batch_matmul complex_abs concat "
        "histogram_summary image_summary inv merge_all_summaries merge_summary mul neg pack "
        "scalar_summary select split sub unpack",
        "stepscope.runtime: InteractiveSession Session",
        "stepscope.tf1.modes: disable_eager_execution disable_v2_behavior enable_eager_execution "
        "enable_v2_behavior executing_eagerly",
        ".dtypes",
        "stepscope.errors: OpError",
    ],
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
        "stepscope.layers.contrib.contrib_forms: conv2d_transpose "
        "conv2d_transpose=convolution2d_transpose layer_norm separable_conv2d "
        "separable_conv2d=separable_convolution2d",
        "stepscope.layers.contrib.contrib_layers: avg_pool2d batch_norm conv2d "
        "conv2d=convolution2d dropout flatten fully_connected max_pool2d repeat stack "
        "variance_scaling_initializer xavier_initializer "
        "xavier_initializer=xavier_initializer_conv2d",
        "stepscope.layers.contrib.encodings: embed_sequence embedding_lookup_unique "
        "one_hot_encoding",
        "stepscope.layers.contrib.regularizers: apply_regularization l1_l2_regularizer "
        "l1_regularizer l2_regularizer sum_regularizer",
        "stepscope.layers.contrib.optimizing: OPTIMIZERS=OPTIMIZER_CLS_NAMES OPTIMIZER_SUMMARIES "
        "optimize_loss",
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
        "stepscope.layers.contrib.contrib_forms: conv2d_transpose "
        "conv2d_transpose=convolution2d_transpose layer_norm separable_conv2d "
        "separable_conv2d=separable_convolution2d",
        "stepscope.layers.contrib.contrib_layers: avg_pool2d batch_norm conv2d "
        "conv2d=convolution2d dropout flatten fully_connected max_pool2d repeat stack "
        "variance_scaling_initializer xavier_initializer "
        "xavier_initializer=xavier_initializer_conv2d",
        "stepscope.layers.contrib.encodings: embed_sequence embedding_lookup_unique "
        "one_hot_encoding",
        "stepscope.layers.contrib.regularizers: apply_regularization l1_l2_regularizer "
        "l1_regularizer l2_regularizer sum_regularizer",
        "stepscope.layers.global_steps: get_global_step get_or_create_global_step",
        "stepscope.tf1: losses",
    ],
    "contrib.rnn": [
        "stepscope.layers.rnn: static_bidirectional_rnn static_rnn",
        "stepscope.layers.rnn_cells: BasicLSTMCell BasicRNNCell GRUCell LSTMCell LSTMStateTuple "
        "MultiRNNCell RNNCell",
        "stepscope.layers.rnn_wrappers: DeviceWrapper DropoutWrapper EmbeddingWrapper "
        "InputProjectionWrapper OutputProjectionWrapper ResidualWrapper",
    ],
    "contrib.legacy_seq2seq": [
        "stepscope.layers.seq2seq.attention: attention_decoder embedding_attention_decoder "
        "embedding_attention_seq2seq",
        "stepscope.layers.seq2seq.decoders: basic_rnn_seq2seq embedding_rnn_decoder "
        "embedding_rnn_seq2seq model_with_buckets rnn_decoder tied_rnn_seq2seq",
        "stepscope.layers.seq2seq.sequence_losses: sequence_loss sequence_loss_by_example",
    ],
    "contrib.seq2seq": [
        "stepscope.layers.seq2seq.attention_cells: AttentionMechanism AttentionWrapper "
        "AttentionWrapperState BahdanauAttention LuongAttention",
        "stepscope.layers.seq2seq.dynamic_decoding: BasicDecoder BasicDecoderOutput Decoder "
        "dynamic_decode tile_batch",
        "stepscope.layers.seq2seq.helpers: CustomHelper GreedyEmbeddingHelper Helper "
        "SampleEmbeddingHelper ScheduledEmbeddingTrainingHelper TrainingHelper",
        "stepscope.layers.seq2seq.sequence_losses: padded_sequence_loss=sequence_loss",
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
    "graph_util": [
        "stepscope.graph.graph_def: import_graph_def",
        "stepscope.programs.saving.frozen_graphs: convert_variables_to_constants "
        "extract_sub_graph must_run_on_cpu remove_training_nodes tensor_shape_from_node_def_name",
    ],
    "image": [
        "stepscope.ops.images.image_files: decode_bmp decode_gif decode_image decode_jpeg "
        "decode_png encode_jpeg encode_png extract_jpeg_shape",
        "stepscope.ops.images.boxes: crop_and_resize draw_bounding_boxes non_max_suppression",
        "stepscope.ops.images.colours: adjust_brightness adjust_contrast adjust_gamma adjust_hue "
        "adjust_saturation convert_image_dtype grayscale_to_rgb hsv_to_rgb "
        "per_image_standardization random_brightness random_contrast random_hue "
        "random_saturation rgb_to_grayscale rgb_to_hsv total_variation",
        "stepscope.ops.images.cropping: central_crop crop_to_bounding_box pad_to_bounding_box "
        "random_crop resize_image_with_crop_or_pad "
        "resize_image_with_crop_or_pad=resize_with_crop_or_pad",
        "stepscope.ops.images.flipping: flip_left_right flip_up_down random_flip_left_right "
        "random_flip_up_down rot90 transpose_image transpose_image=transpose",
        "stepscope.ops.images.resizing: ResizeMethod resize_area resize_bicubic resize_bilinear "
        "resize_images resize_images=resize resize_nearest_neighbor",
    ],
    "initializers": [
        "stepscope.layers.initializers: constant_initializer=constant "
        "glorot_normal_initializer=glorot_normal glorot_uniform_initializer=glorot_uniform "
        "he_normal he_uniform lecun_normal lecun_uniform ones_initializer=ones "
        "orthogonal_initializer=orthogonal "
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
        "stepscope.layers.convolutions.convolution_forms: Conv2DTranspose SeparableConv2D "
        "conv2d_transpose separable_conv2d",
        "stepscope.layers.convolutions.image_layers: AveragePooling2D Conv2D MaxPooling2D "
        "average_pooling2d conv2d max_pooling2d",
        "stepscope.layers.convolutions.series_layers: AveragePooling1D Conv1D MaxPooling1D "
        "average_pooling1d conv1d max_pooling1d",
        "stepscope.layers.convolutions.volume_layers: AveragePooling3D Conv3D MaxPooling3D "
        "average_pooling3d conv3d max_pooling3d",
        "stepscope.layers.dense: Dense Dropout Flatten dense dropout flatten",
        "stepscope.layers.layer_base: Layer",
        "stepscope.layers.normalization: BatchNormalization batch_normalization",
    ],
    "linalg": [
        "stepscope.layers.clipping: global_norm",
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
        "stepscope.layers.truth_metrics: auc false_negatives false_positives mean_iou precision "
        "recall true_negatives true_positives",
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
    "compat": [
        "stepscope.tf1.compat.text: as_bytes as_str as_str_any as_text",
    ],
    "contrib.learn": [
        "stepscope.programs.learn: Estimator ModeKeys ModelFnOps RunConfig",
        "stepscope.programs.summary_writers: FileWriterCache=SummaryWriterCache",
    ],
    "contrib.learn.monitors": [
        "stepscope.programs.hooks: NanLossDuringTrainingError",
        "stepscope.programs.learn.monitors: BaseMonitor CaptureVariable EveryN NanLoss "
        "PrintTensor RunHookAdapterForMonitors StopAtStep SummarySaver ValidationMonitor "
        "replace_monitors_with_hooks",
        "stepscope.programs.summary_writers: FileWriterCache=SummaryWriterCache",
    ],
    "data": [
        "stepscope.programs.data: AUTOTUNE Dataset FixedLengthRecordDataset Iterator "
        "TextLineDataset TFRecordDataset get_output_classes get_output_shapes get_output_types "
        "make_initializable_iterator make_one_shot_iterator",
    ],
    "data.experimental": [
        "stepscope.programs.data.experimental: AUTOTUNE enumerate_dataset ignore_errors "
        "map_and_batch parallel_interleave prefetch_to_device shuffle_and_repeat unbatch",
    ],
    "dtypes": [
        "stepscope.ops.arrays.conversion: cast",
        "stepscope.ops.arrays.strings: as_string",
        "stepscope.ops.images.colours: saturate_cast",
        "stepscope.ops.math.unary: complex",
        "stepscope.graph.dtypes: DType as_dtype complex64 complex128 float16 float32 float64 int8 "
        "int16 int32 int64 resource string uint8 uint16 uint32 uint64 variant bool_=bool "
        "float16=half float64=double",
    ],
    "errors": [
        "stepscope.errors: ABORTED ALREADY_EXISTS CANCELLED DATA_LOSS DEADLINE_EXCEEDED "
        "FAILED_PRECONDITION INTERNAL INVALID_ARGUMENT NOT_FOUND OK OUT_OF_RANGE "
        "PERMISSION_DENIED RESOURCE_EXHAUSTED UNAUTHENTICATED UNAVAILABLE UNIMPLEMENTED UNKNOWN "
        "AbortedError AlreadyExistsError CancelledError DataLossError DeadlineExceededError "
        "FailedPreconditionError InternalError InvalidArgumentError NotFoundError OpError "
        "OutOfRangeError PermissionDeniedError ResourceExhaustedError UnauthenticatedError "
        "UnavailableError UnimplementedError UnknownError",
    ],
    "estimator": [
        "stepscope.programs.checkpoint_hook: CheckpointSaverHook CheckpointSaverListener",
        "stepscope.programs.estimator: Estimator EstimatorSpec EvalSpec ModeKeys RunConfig "
        "TrainSpec train_and_evaluate",
        "stepscope.programs.hooks: FeedFnHook FinalOpsHook LoggingTensorHook "
        "NanLossDuringTrainingError NanTensorHook SecondOrStepTimer StepCounterHook "
        "StopAtStepHook SummarySaverHook",
        "stepscope.programs.profiler_hook: ProfilerHook",
        "stepscope.programs.run_hooks: SessionRunArgs SessionRunContext SessionRunHook "
        "SessionRunValues",
    ],
    "estimator.inputs": [
        "stepscope.programs.estimator: numpy_input_fn",
    ],
    "flags": [
        "absl.flags: DuplicateFlagError Error FlagValues IllegalFlagValueError "
        "UnparsedFlagAccessError UnrecognizedFlagError ValidationError declare_key_flag "
        "mark_flag_as_required mark_flags_as_mutual_exclusive mark_flags_as_required "
        "register_validator validator",
        "stepscope.programs.flags: FLAGS DEFINE_alias DEFINE_bool DEFINE_boolean DEFINE_enum "
        "DEFINE_float DEFINE_integer DEFINE_list DEFINE_multi_enum DEFINE_multi_float "
        "DEFINE_multi_integer DEFINE_multi_string DEFINE_spaceseplist DEFINE_string",
    ],
    "logging": [
        "stepscope.programs.log: DEBUG ERROR FATAL INFO WARN debug error fatal flush "
        "get_verbosity info log log_every_n log_first_n log_if set_verbosity vlog warn warning",
    ],
    "math": [
        "stepscope.layers.truth_metrics: confusion_matrix",
        "stepscope.ops.arrays.shaping: invert_permutation",
        "stepscope.ops.flow.assertions: is_non_decreasing is_strictly_increasing",
        "stepscope.ops.math.comparison: equal greater greater_equal less less_equal logical_and "
        "logical_not logical_or logical_xor not_equal",
        "stepscope.ops.math.division: div_no_nan=divide_no_nan divide floordiv floormod mod "
        "truediv",
        "stepscope.ops.math.elementwise: add add_n atan2 maximum minimum multiply pow "
        "squared_difference subtract",
        "stepscope.ops.math.reductions: count_nonzero reduce_all reduce_any reduce_logsumexp "
        "reduce_max reduce_mean reduce_min reduce_prod reduce_sum",
        "stepscope.ops.math.scans: argmax argmin cumprod cumsum",
        "stepscope.ops.math.segments: unsorted_segment_sum",
        "stepscope.ops.math.sorted_segments: segment_max segment_mean segment_min segment_sum",
        "stepscope.ops.math.unary: abs acos asin atan ceil conj cos cosh erf erfc exp expm1 floor "
        "imag is_finite is_inf is_nan log log1p negative real reciprocal rint round rsqrt sign "
        "sin sinh sqrt square tan tanh",
        "stepscope.ops.nn.activations: log_sigmoid log_softmax sigmoid softmax softplus softsign",
        "stepscope.ops.nn.composed_parts: accumulate_n scalar_mul zero_fraction",
        "stepscope.ops.nn.layer_parts: in_top_k l2_normalize top_k",
    ],
    "nn": [
        "stepscope.layers.rnn: bidirectional_dynamic_rnn dynamic_rnn raw_rnn "
        "static_bidirectional_rnn static_rnn",
        "stepscope.layers.sampled_losses: nce_loss sampled_softmax_loss",
        "stepscope.layers.text.embeddings: embedding_lookup embedding_lookup_sparse "
        "safe_embedding_lookup_sparse",
        "stepscope.ops.math.reductions: l2_loss",
        "stepscope.ops.math.unary: tanh",
        "stepscope.ops.nn.activations: elu leaky_relu log_softmax relu relu6 selu sigmoid softmax "
        "softplus softsign",
        "stepscope.ops.nn.candidate_sampling: all_candidate_sampler compute_accidental_hits "
        "fixed_unigram_candidate_sampler learned_unigram_candidate_sampler "
        "log_uniform_candidate_sampler uniform_candidate_sampler",
        "stepscope.ops.nn.composed_parts: atrous_conv2d crelu swish "
        "weighted_cross_entropy_with_logits zero_fraction",
        "stepscope.ops.nn.convolution: conv1d conv2d conv2d_backprop_filter conv2d_backprop_input "
        "conv2d_transpose",
        "stepscope.ops.nn.cross_entropy: softmax_cross_entropy_with_logits_v2",
        "stepscope.ops.nn.depthwise: depthwise_conv2d depthwise_conv2d_native "
        "depthwise_conv2d_native_backprop_filter depthwise_conv2d_native_backprop_input "
        "separable_conv2d",
        "stepscope.ops.nn.fused_batch_norm: fused_batch_norm",
        "stepscope.ops.nn.layer_parts: batch_normalization bias_add dropout in_top_k l2_normalize "
        "moments relu_layer top_k xw_plus_b",
        "stepscope.ops.nn.local_response: local_response_normalization lrn",
        "stepscope.ops.nn.pooling: avg_pool avg_pool3d max_pool max_pool3d avg_pool=avg_pool2d",
        "stepscope.ops.nn.volumes: conv3d conv3d_backprop_filter conv3d_backprop_filter_v2 "
        "conv3d_transpose",
        "stepscope.programs.old_names: sigmoid_cross_entropy_with_logits "
        "softmax_cross_entropy_with_logits sparse_softmax_cross_entropy_with_logits",
    ],
    "nn.rnn_cell": [
        "stepscope.layers.rnn_cells: BasicLSTMCell BasicRNNCell GRUCell LSTMCell LSTMStateTuple "
        "MultiRNNCell RNNCell",
        "stepscope.layers.rnn_wrappers: DeviceWrapper DropoutWrapper ResidualWrapper",
    ],
    "random": [
        "stepscope.ops.math.random: categorical get_seed multinomial set_random_seed "
        "truncated_normal random_normal=normal random_shuffle=shuffle random_uniform=uniform",
        "stepscope.ops.nn.candidate_sampling: all_candidate_sampler "
        "fixed_unigram_candidate_sampler learned_unigram_candidate_sampler "
        "log_uniform_candidate_sampler uniform_candidate_sampler",
    ],
    "summary": [
        "stepscope._messages: Event SessionLog Summary TaggedRunMetadata",
        "stepscope.export: FileWriter",
        "stepscope.ops.io.audio_summaries: audio",
        "stepscope.ops.io.summaries: histogram image merge merge_all scalar tensor_summary text",
        "stepscope.programs.summary_writers: FileWriterCache",
    ],
    "train": [
        "stepscope._messages: SaverDef",
        "stepscope.export: FileWriter=SummaryWriter",
        "stepscope.layers.adaptive_optimizers: AdadeltaOptimizer AdagradDAOptimizer "
        "AdagradOptimizer",
        "stepscope.layers.global_steps: create_global_step get_global_step "
        "get_or_create_global_step global_step",
        "stepscope.layers.learning_rates: cosine_decay cosine_decay_restarts exponential_decay "
        "inverse_time_decay linear_cosine_decay natural_exp_decay noisy_linear_cosine_decay "
        "piecewise_constant polynomial_decay piecewise_constant=piecewise_constant_decay",
        "stepscope.layers.moving_averages: ExponentialMovingAverage",
        "stepscope.layers.optimizer_base: Optimizer",
        "stepscope.layers.optimizers: AdamOptimizer GradientDescentOptimizer MomentumOptimizer "
        "RMSPropOptimizer",
        "stepscope.layers.proximal_optimizers: FtrlOptimizer ProximalAdagradOptimizer "
        "ProximalGradientDescentOptimizer",
        "stepscope.metadata.wire.example_messages: BytesList Example Feature FeatureList "
        "FeatureLists Features FloatList Int64List SequenceExample",
        "stepscope.options: ClusterDef JobDef",
        "stepscope.programs: queue_runner",
        "stepscope.programs.checkpoint_hook: CheckpointSaverHook CheckpointSaverListener",
        "stepscope.programs.coordinator: Coordinator LooperThread",
        "stepscope.programs.hooks: FeedFnHook FinalOpsHook LoggingTensorHook "
        "NanLossDuringTrainingError NanTensorHook SecondOrStepTimer StepCounterHook "
        "StopAtStepHook SummarySaverHook",
        "stepscope.programs.input_queues: batch batch_join input_producer limit_epochs "
        "range_input_producer shuffle_batch shuffle_batch_join slice_input_producer "
        "string_input_producer",
        "stepscope.programs.monitored_session: MonitoredSession MonitoredTrainingSession "
        "SingularMonitoredSession",
        "stepscope.programs.profiler_hook: ProfilerHook",
        "stepscope.programs.queue_runner: QueueRunner add_queue_runner start_queue_runners",
        "stepscope.programs.run_hooks: SessionRunArgs SessionRunContext SessionRunHook "
        "SessionRunValues",
        "stepscope.programs.saving.checkpoints: NewCheckpointReader checkpoint_exists "
        "generate_checkpoint_state_proto get_checkpoint_mtimes get_checkpoint_state "
        "latest_checkpoint list_variables load_checkpoint load_variable remove_checkpoint "
        "update_checkpoint_state",
        "stepscope.programs.saving.meta_graph_import: import_meta_graph",
        "stepscope.programs.saving.meta_graphs: export_meta_graph write_graph",
        "stepscope.programs.saving.saver: Saver",
        "stepscope.programs.scaffold: ChiefSessionCreator Scaffold SessionCreator",
        "stepscope.programs.session_manager: SessionManager",
        "stepscope.programs.summary_writers: FileWriterCache=SummaryWriterCache",
        "stepscope.programs.supervisor: Supervisor",
    ],
}
