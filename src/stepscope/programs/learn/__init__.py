"""`tf.contrib.learn`: what came before `tf.estimator`, over it."""

from stepscope.programs.learn.estimator import Estimator, ModeKeys, ModelFnOps, RunConfig

__all__ = ["Estimator", "ModeKeys", "ModelFnOps", "RunConfig"]
