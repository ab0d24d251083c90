"""`tf.contrib.learn.monitors`: what is told of a training's steps."""

from stepscope.programs.hooks import NanLossDuringTrainingError
from stepscope.programs.learn.monitors import (
    BaseMonitor,
    CaptureVariable,
    EveryN,
    NanLoss,
    PrintTensor,
    RunHookAdapterForMonitors,
    StopAtStep,
    SummarySaver,
    ValidationMonitor,
    replace_monitors_with_hooks,
)
from stepscope.programs.summary_writers import FileWriterCache as SummaryWriterCache
from stepscope.tf1._absent import absent

__all__ = [
    "BaseMonitor", "CaptureVariable", "EveryN", "NanLoss", "NanLossDuringTrainingError",
    "PrintTensor", "RunHookAdapterForMonitors", "StopAtStep", "SummarySaver", "SummaryWriterCache",
    "ValidationMonitor", "replace_monitors_with_hooks",
]  # fmt: skip

_HOOK = "use the hook of tf.train for it: fit takes hooks among the monitors"

__getattr__ = absent(
    __name__,
    dict.fromkeys(
        ("CheckpointSaver", "ExportMonitor", "GraphDump", "LoggingTrainable", "StepCounter"), _HOOK
    ),
)
