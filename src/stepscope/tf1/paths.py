"""Module paths that programs import: one table, resolved when a name is asked for.

`from tensorflow.python.ops import array_ops` is how many programs reach names that are public
elsewhere. `PATHS` says of each such module where its names are: "module: name name" are names of
one of our modules (`name=other` under another name), and a word that begins with a dot is all of
a public module (".": the top one, ".nn": `tf.nn`). A module that is not public itself but lies on
the way to one in the table is there as well.

    >>> import stepscope.tf1 as tf
    >>> from stepscope.tf1.python.ops import array_ops
    >>> array_ops.zeros is tf.zeros
    True
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from stepscope.tf1._absent import ROOT, absent, public_name, public_names
from stepscope.tf1.names import NAMES

__all__ = ["PATHS", "install", "modules", "named"]

PATHS: Final[dict[str, list[str]]] = {
    "core.framework.attr_value_pb2": ["stepscope._messages: AttrValue NameAttrList"],
    "core.framework.cost_graph_pb2": ["stepscope._messages: CostGraphDef"],
    "core.framework.graph_pb2": ["stepscope._messages: GraphDef"],
    "core.framework.node_def_pb2": ["stepscope._messages: NodeDef"],
    "core.framework.step_stats_pb2": [
        "stepscope._messages: AllocationRecord AllocatorMemoryUsed DeviceStepStats MemoryStats "
        "NodeExecStats NodeOutput StepStats",
    ],
    "core.framework.summary_pb2": ["stepscope._messages: HistogramProto Summary SummaryMetadata"],
    "core.framework.tensor_pb2": ["stepscope._messages: TensorProto"],
    "core.framework.tensor_shape_pb2": ["stepscope._messages: TensorShapeProto"],
    "core.profiler.tfprof_log_pb2": [
        "stepscope.metadata.wire.profile_messages: CodeDef ExecMemory ExecProfile ExecTime "
        "OpLogEntry OpLogProto ProfileNode ProfileProto",
    ],
    "core.profiler.tfprof_options_pb2": [
        "stepscope.metadata.wire.profile_messages: AdvisorOptionsProto OptionsProto",
    ],
    "core.profiler.tfprof_output_pb2": [
        "stepscope.metadata.wire.profile_messages: AdviceProto GraphNodeProto MultiGraphNodeProto "
        "TFProfTensorProto",
    ],
    "core.protobuf.cluster_pb2": ["stepscope.options: ClusterDef JobDef"],
    "core.protobuf.config_pb2": [
        "stepscope.metadata: RunMetadata",
        "stepscope.options: CallableOptions ConfigProto GPUOptions GraphOptions "
        "OptimizerOptions RPCOptions RunOptions SessionMetadata ThreadPoolOptionProto",
    ],
    "core.protobuf.debug_pb2": ["stepscope.options: DebugOptions DebugTensorWatch"],
    "core.protobuf.meta_graph_pb2": ["stepscope._messages: CollectionDef MetaGraphDef"],
    "core.protobuf.rewriter_config_pb2": ["stepscope.options: RewriterConfig"],
    "python.client.session": ["stepscope.runtime: InteractiveSession Session"],
    "python.client.timeline": ["stepscope.export: Timeline"],
    "python.framework.ops": [
        "stepscope.graph: Graph GraphKeys Operation Tensor add_to_collection colocate_with "
        "control_dependencies convert_to_tensor device get_collection get_collection_ref "
        "get_default_graph get_default_session name_scope reset_default_graph",
    ],
    "python.framework.tensor_shape": ["stepscope.graph: Dimension TensorShape"],
    "python.training.moving_averages": [
        "stepscope.layers.moving_averages: ExponentialMovingAverage assign_moving_average "
        "weighted_moving_average",
    ],
    "python.training.saveable_object": [
        "stepscope.ops.state.saveables: SaveSpec SaveableObject",
    ],
    "python.training.saver": [
        "stepscope.programs.saving.saver_nodes: BaseSaverBuilder",
        ".train",
        ".",
    ],
    "python.profiler.model_analyzer": [
        "stepscope.programs.profiler: ALL_ADVICE Profiler advise profile",
        "stepscope.programs.profiler.model_analyzer: FLOAT_OPS_OPTIONS PRINT_ALL_TIMING_MEMORY "
        "TRAINABLE_VARS_PARAMS_STAT_OPTIONS",
    ],
    "python.profiler.profile_context": ["stepscope.programs.profiler: ProfileContext"],
    "python.profiler.option_builder": ["stepscope.programs.profiler: ProfileOptionBuilder"],
    "python.profiler.tfprof_logger": [
        "stepscope.analysis.model_profile: TRAINABLE=TRAINABLE_VARIABLES",
        "stepscope.programs.profiler: merge_default_with_oplog write_op_log",
    ],
    "contrib.tensorboard.plugins.projector": [
        "stepscope.programs.projector: EmbeddingInfo ProjectorConfig SpriteMetadata "
        "visualize_embeddings",
    ],
    "contrib.tfprof": ["stepscope.programs.profiler: ProfileContext"],
    "contrib.tfprof.model_analyzer": [
        "stepscope.programs.profiler: ALL_ADVICE ProfileContext Profiler advise",
        "stepscope.programs.profiler.model_analyzer: FLOAT_OPS_OPTIONS PRINT_ALL_TIMING_MEMORY "
        "TRAINABLE_VARS_PARAMS_STAT_OPTIONS print_model_analysis",
    ],
    "contrib.tfprof.tfprof_logger": ["stepscope.programs.profiler: write_op_log"],
    "examples.tutorials.mnist.input_data": [
        "stepscope.programs.mnist: DataSet Datasets dense_to_one_hot extract_images "
        "extract_labels read_data_sets",
    ],
    "python.platform.app": [".app"],
    "python.platform.flags": [".flags"],
    "python.platform.gfile": [".gfile"],
    "python.platform.test": [".test"],
    "python.platform.tf_logging": [".logging"],
    "python.util.compat": [".compat"],
    "python.util.nest": ["stepscope.programs.nest: *"],
    "python.data.util.nest": ["stepscope.programs.nest: *"],
    "python.lib.io.file_io": [
        "stepscope.programs.files: GFile=FileIO Copy=copy DeleteRecursively=delete_recursively "
        "Exists=file_exists Glob=get_matching_files IsDirectory=is_directory Rename=rename "
        "ListDirectory=list_directory MakeDirs=recursive_create_dir MkDir=create_dir "
        "Remove=delete_file Stat=stat Walk=walk",
    ],
}
_OF_PUBLIC: Final[dict[str, str]] = {
    ". .math": "python.ops: math_ops special_math_ops clip_ops bitwise_ops",
    ".": "python.ops: array_ops check_ops confusion_matrix control_flow_ops data_flow_ops "
    "functional_ops gradients gradients_impl init_ops io_ops linalg_ops list_ops logging_ops "
    "lookup_ops parsing_ops partitioned_variables random_ops resource_variable_ops script_ops "
    "sparse_ops standard_ops state_ops string_ops tensor_array_ops variable_scope variables "
    "histogram_ops nn_grad math_grad",
    ".nn .": "python.ops: nn nn_impl nn_ops embedding_ops candidate_sampling_ops ctc_ops",
    ".nn.rnn_cell": "python.ops: rnn_cell rnn_cell_impl",
    ".nn": "python.ops: rnn",
    ".losses": "python.ops.losses: losses losses_impl util",
    ".metrics": "python.ops: metrics metrics_impl",
    ".summary": "python.summary: summary summary_iterator "
    "python.summary.writer: writer writer_cache event_file_writer",
    ".train .": "python.training: adadelta adagrad adam basic_session_run_hooks "
    "checkpoint_management checkpoint_utils coordinator evaluation ftrl gradient_descent input "
    "learning_rate_decay momentum monitored_session optimizer queue_runner "
    "queue_runner_impl rmsprop server_lib session_manager session_run_hook slot_creator "
    "summary_io supervisor training training_ops training_util",
    ".dtypes": "python.framework: dtypes",
    ".errors": "python.framework: errors errors_impl",
    ". ": "python.framework: common_shapes constant_op device function importer "
    "meta_graph sparse_tensor tensor_util random_seed versions "
    "python.client: client_lib",
    ".layers": "python.layers: base convolutional core layers normalization pooling",
    ".estimator": "python.estimator: estimator estimator_lib export inputs model_fn run_config "
    "training",
    ".data": "python.data.ops: dataset_ops iterator_ops readers python.data: dataset",
    ".data.experimental": "python.data.experimental.ops: batching interleave_ops shuffle_ops",
    ".python_io": "python.lib.io: tf_record python.lib.io: python_io",
    ".graph_util": "python.framework: graph_util graph_util_impl",
    ".image": "python.ops: image_ops image_ops_impl",
}
"""Paths whose names are those of public modules, the first of them first."""


def _spread() -> None:
    for places, text in _OF_PUBLIC.items():
        package = ""
        for word in text.split():
            if word.endswith(":"):
                package = word[:-1]
            else:
                PATHS.setdefault(f"{package}.{word}", places.split())


_spread()


def modules() -> Iterator[str]:
    """Every module path there is, packages on the way included."""
    found: dict[str, None] = {}
    for path in PATHS:
        parts = path.split(".")
        for length in range(1, len(parts) + 1):
            found[".".join(parts[:length])] = None
    return iter(sorted(found))


_ALL: Final = PATHS | NAMES
_KNOWN: Final = frozenset({*modules(), *NAMES} - {""})
_NOTHING: Final = object()


def named(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module of the table; pass its `__name__`.

    What was asked for once is an ordinary attribute of the module from then on.
    """
    path = module.removeprefix(ROOT).removeprefix(".")
    below = f"{path}." if path else ""
    missing = absent(module)

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name == "__all__":
            return names()
        if not name.startswith("__"):
            for place in _ALL.get(path, ()):
                found = _looked_up(place, name)
                if found is not _NOTHING:
                    setattr(sys.modules[module], name, found)
                    return found
            if below + name in _KNOWN:
                return import_module(f"{module}.{name}")
        return missing(name)

    def names() -> list[str]:
        found = {k.removeprefix(below).partition(".")[0] for k in _KNOWN if k.startswith(below)}
        for place in _ALL.get(path, ()):
            found.update(_names_of(place))
        return sorted(found)

    return __getattr__, names


@cache
def _source(place: str) -> tuple[str, dict[str, str]]:
    """Our module of an entry, and by public name the name in it."""
    module, _, names = place.partition(": ")
    if names == "*":
        return module, {name: name for name in public_names(import_module(module))}
    pairs = (word.partition("=") for word in names.split())
    return module, {public or own: own for own, _, public in pairs}


def _looked_up(place: str, name: str) -> Any:
    if place.startswith("."):
        public = import_module(ROOT + place.rstrip("."))
        return getattr(public, name) if name in _names_of(place) else _NOTHING
    module, names = _source(place)
    if name not in names:
        return _NOTHING
    own = names[name]
    found = getattr(import_module(module), own, _NOTHING)
    return import_module(f"{module}.{own}") if found is _NOTHING else found


@cache
def _names_of(place: str) -> frozenset[str]:
    """The names that an entry of the table gives."""
    if place.startswith("."):
        return frozenset(public_names(import_module(ROOT + place.rstrip("."))))
    return frozenset(_source(place)[1])


class _Finder(MetaPathFinder, Loader):
    """Finds the modules of the table below `stepscope.tf1`; files come first."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname.removeprefix(f"{ROOT}.") not in _KNOWN or not fullname.startswith(ROOT):
            return None
        return ModuleSpec(fullname, self, origin="a table", is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name, f"`{public_name(spec.name)}`.")

    def exec_module(self, module: ModuleType) -> None:
        look_up, names = named(module.__name__)
        vars(module).update(__getattr__=look_up, __dir__=names)


def install() -> None:
    """Let Python find the modules of the table. A second call changes nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
