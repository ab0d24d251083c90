"""`tf.train`: optimizers, learning rates, steps, input, sessions with hooks, checkpoints."""

from stepscope._messages import SaverDef
from stepscope.export import FileWriter as SummaryWriter
from stepscope.layers.adaptive_optimizers import (
    AdadeltaOptimizer,
    AdagradDAOptimizer,
    AdagradOptimizer,
)
from stepscope.layers.global_steps import (
    create_global_step,
    get_global_step,
    get_or_create_global_step,
    global_step,
)
from stepscope.layers.learning_rates import (
    cosine_decay,
    cosine_decay_restarts,
    exponential_decay,
    inverse_time_decay,
    linear_cosine_decay,
    natural_exp_decay,
    noisy_linear_cosine_decay,
    piecewise_constant,
    polynomial_decay,
)
from stepscope.layers.learning_rates import piecewise_constant as piecewise_constant_decay
from stepscope.layers.moving_averages import ExponentialMovingAverage
from stepscope.layers.optimizer_base import Optimizer
from stepscope.layers.optimizers import (
    AdamOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
)
from stepscope.layers.proximal_optimizers import (
    FtrlOptimizer,
    ProximalAdagradOptimizer,
    ProximalGradientDescentOptimizer,
)
from stepscope.metadata.wire.example_messages import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)
from stepscope.options import ClusterDef, JobDef
from stepscope.programs import queue_runner
from stepscope.programs.checkpoint_hook import CheckpointSaverHook, CheckpointSaverListener
from stepscope.programs.coordinator import Coordinator, LooperThread
from stepscope.programs.hooks import (
    FeedFnHook,
    FinalOpsHook,
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    SecondOrStepTimer,
    StepCounterHook,
    StopAtStepHook,
    SummarySaverHook,
)
from stepscope.programs.input_queues import (
    batch,
    batch_join,
    input_producer,
    limit_epochs,
    range_input_producer,
    shuffle_batch,
    shuffle_batch_join,
    slice_input_producer,
    string_input_producer,
)
from stepscope.programs.monitored_session import (
    MonitoredSession,
    MonitoredTrainingSession,
    SingularMonitoredSession,
)
from stepscope.programs.profiler_hook import ProfilerHook
from stepscope.programs.queue_runner import (
    QueueRunner,
    add_queue_runner,
    start_queue_runners,
)
from stepscope.programs.run_hooks import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from stepscope.programs.saving.checkpoints import (
    NewCheckpointReader,
    checkpoint_exists,
    generate_checkpoint_state_proto,
    get_checkpoint_mtimes,
    get_checkpoint_state,
    latest_checkpoint,
    list_variables,
    load_checkpoint,
    load_variable,
    remove_checkpoint,
    update_checkpoint_state,
)
from stepscope.programs.saving.meta_graph_import import import_meta_graph
from stepscope.programs.saving.meta_graphs import export_meta_graph, write_graph
from stepscope.programs.saving.saver import Saver
from stepscope.programs.scaffold import ChiefSessionCreator, Scaffold, SessionCreator
from stepscope.programs.session_manager import SessionManager
from stepscope.programs.summary_writers import FileWriterCache as SummaryWriterCache
from stepscope.programs.supervisor import Supervisor
from stepscope.tf1._absent import absent

_ONE_PROCESS = "the embedded engine runs in this process; a session with a grpc:// target does not"

__all__ = [
    "AdadeltaOptimizer", "AdagradDAOptimizer", "AdagradOptimizer", "AdamOptimizer", "BytesList",
    "CheckpointSaverHook", "CheckpointSaverListener", "ChiefSessionCreator", "ClusterDef",
    "Coordinator", "Example", "ExponentialMovingAverage", "Feature", "FeatureList", "FeatureLists",
    "Features", "FeedFnHook", "FinalOpsHook", "FloatList", "FtrlOptimizer",
    "GradientDescentOptimizer", "Int64List", "JobDef", "LoggingTensorHook", "LooperThread",
    "MomentumOptimizer", "MonitoredSession", "MonitoredTrainingSession",
    "NanLossDuringTrainingError", "NanTensorHook", "NewCheckpointReader", "Optimizer",
    "ProfilerHook", "ProximalAdagradOptimizer", "ProximalGradientDescentOptimizer", "QueueRunner",
    "RMSPropOptimizer", "Saver", "SaverDef", "Scaffold", "SecondOrStepTimer", "SequenceExample",
    "SessionCreator", "SessionManager", "SessionRunArgs", "SessionRunContext", "SessionRunHook",
    "SessionRunValues", "SingularMonitoredSession", "StepCounterHook", "StopAtStepHook",
    "SummarySaverHook", "SummaryWriter", "SummaryWriterCache", "Supervisor", "add_queue_runner",
    "batch", "batch_join", "checkpoint_exists", "cosine_decay", "cosine_decay_restarts",
    "create_global_step", "exponential_decay", "export_meta_graph",
    "generate_checkpoint_state_proto", "get_checkpoint_mtimes", "get_checkpoint_state",
    "get_global_step", "get_or_create_global_step", "global_step", "import_meta_graph",
    "input_producer", "inverse_time_decay", "latest_checkpoint", "limit_epochs",
    "linear_cosine_decay", "list_variables", "load_checkpoint", "load_variable",
    "natural_exp_decay", "noisy_linear_cosine_decay", "piecewise_constant",
    "piecewise_constant_decay", "polynomial_decay", "queue_runner", "range_input_producer",
    "remove_checkpoint", "shuffle_batch", "shuffle_batch_join", "slice_input_producer",
    "start_queue_runners", "string_input_producer", "update_checkpoint_state", "write_graph",
]  # fmt: skip

__getattr__ = absent(
    __name__,
    {
        "Checkpoint": "TensorFlow 2's: use tf.train.Saver",
        "CheckpointManager": "TensorFlow 2's: use tf.train.Saver",
        "Server": _ONE_PROCESS,
        "ClusterSpec": _ONE_PROCESS,
        "WorkerSessionCreator": _ONE_PROCESS,
        "replica_device_setter": _ONE_PROCESS,
    },
)
