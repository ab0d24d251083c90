"""`tf.estimator`: models given by a function, trained, evaluated and asked."""

from stepscope.programs.checkpoint_hook import CheckpointSaverHook, CheckpointSaverListener
from stepscope.programs.estimator import (
    Estimator,
    EstimatorSpec,
    EvalSpec,
    ModeKeys,
    RunConfig,
    TrainSpec,
    train_and_evaluate,
)
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
from stepscope.programs.profiler_hook import ProfilerHook
from stepscope.programs.run_hooks import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from stepscope.tf1._absent import absent
from stepscope.tf1.estimator import inputs

_CANNED = (
    "ready-made models are no part of this engine: write a model_fn for tf.estimator.Estimator"
)
_EXPORT = "saved models are not exported by this engine: use the checkpoints of model_dir"

__all__ = [
    "CheckpointSaverHook", "CheckpointSaverListener", "Estimator", "EstimatorSpec", "EvalSpec",
    "FeedFnHook", "FinalOpsHook", "LoggingTensorHook", "ModeKeys", "NanLossDuringTrainingError",
    "NanTensorHook", "ProfilerHook", "RunConfig", "SecondOrStepTimer", "SessionRunArgs",
    "SessionRunContext", "SessionRunHook", "SessionRunValues", "StepCounterHook", "StopAtStepHook",
    "SummarySaverHook", "TrainSpec", "inputs", "train_and_evaluate",
]  # fmt: skip

__getattr__ = absent(
    __name__,
    {
        **dict.fromkeys(
            (
                "BaselineClassifier", "BaselineRegressor", "BoostedTreesClassifier",
                "BoostedTreesRegressor", "DNNClassifier", "DNNRegressor",
                "DNNLinearCombinedClassifier", "DNNLinearCombinedRegressor", "LinearClassifier",
                "LinearRegressor",
            ),
            _CANNED,
        ),
        **dict.fromkeys(("export", "Exporter", "BestExporter", "FinalExporter"), _EXPORT),
        "LatestExporter": _EXPORT,
        "WarmStartSettings": "restore what is wanted in tf.train.Scaffold(init_fn=...)",
    },
)  # fmt: skip
