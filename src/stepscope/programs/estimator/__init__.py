"""`tf.estimator`: models given by a function, with everything around their training."""

from stepscope.programs.estimator.estimator import Estimator
from stepscope.programs.estimator.model_fn import EstimatorSpec, ModeKeys
from stepscope.programs.estimator.numpy_input import numpy_input_fn
from stepscope.programs.estimator.run_config import RunConfig
from stepscope.programs.estimator.train_and_evaluate import (
    EvalSpec,
    TrainSpec,
    train_and_evaluate,
)

__all__ = [
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "ModeKeys",
    "RunConfig",
    "TrainSpec",
    "numpy_input_fn",
    "train_and_evaluate",
]
