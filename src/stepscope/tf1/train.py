"""`tf.train`: optimizers, learning rates, steps, input threads, sessions with hooks, graphs."""

from stepscope.ops.global_steps import (
    create_global_step,
    exponential_decay,
    get_global_step,
    get_or_create_global_step,
    global_step,
)
from stepscope.ops.optimizer import Optimizer
from stepscope.ops.optimizers import (
    AdamOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
)
from stepscope.options import ClusterDef, JobDef
from stepscope.programs import queue_runner
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
    input_producer,
    limit_epochs,
    range_input_producer,
    shuffle_batch,
    slice_input_producer,
    string_input_producer,
)
from stepscope.programs.meta_graphs import export_meta_graph, import_meta_graph, write_graph
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
from stepscope.programs.scaffold import ChiefSessionCreator, Scaffold, SessionCreator
from stepscope.tf1._absent import absent

_NO_CHECKPOINTS = "the embedded engine has no checkpoints; give variables values with Variable.load"
_ONE_PROCESS = "the embedded engine runs in this process; a session with a grpc:// target does not"

__all__ = [
    "AdamOptimizer", "ChiefSessionCreator", "ClusterDef", "Coordinator", "FeedFnHook",
    "FinalOpsHook", "GradientDescentOptimizer", "JobDef", "LoggingTensorHook", "LooperThread",
    "MomentumOptimizer", "MonitoredSession", "MonitoredTrainingSession",
    "NanLossDuringTrainingError", "NanTensorHook", "Optimizer", "ProfilerHook", "QueueRunner",
    "RMSPropOptimizer", "Scaffold", "SecondOrStepTimer", "SessionCreator", "SessionRunArgs",
    "SessionRunContext", "SessionRunHook", "SessionRunValues", "SingularMonitoredSession",
    "StepCounterHook", "StopAtStepHook", "SummarySaverHook", "add_queue_runner", "batch",
    "create_global_step", "exponential_decay", "export_meta_graph", "get_global_step",
    "get_or_create_global_step", "global_step", "import_meta_graph", "input_producer",
    "limit_epochs", "queue_runner", "range_input_producer", "shuffle_batch",
    "slice_input_producer", "start_queue_runners", "string_input_producer", "write_graph",
]  # fmt: skip

__getattr__ = absent(
    __name__,
    {
        "Saver": _NO_CHECKPOINTS,
        "CheckpointSaverHook": _NO_CHECKPOINTS,
        "latest_checkpoint": _NO_CHECKPOINTS,
        "Supervisor": "use MonitoredTrainingSession",
        "Server": _ONE_PROCESS,
        "ClusterSpec": _ONE_PROCESS,
        "WorkerSessionCreator": _ONE_PROCESS,
        "replica_device_setter": _ONE_PROCESS,
    },
)
