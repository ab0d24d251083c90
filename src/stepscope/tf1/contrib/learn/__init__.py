"""`tf.contrib.learn`: an Estimator with `fit` and monitors, as before `tf.estimator`."""

from stepscope.programs.learn import Estimator, ModeKeys, ModelFnOps, RunConfig
from stepscope.programs.summary_writers import FileWriterCache as SummaryWriterCache
from stepscope.tf1._absent import absent
from stepscope.tf1.contrib.learn import monitors

_CANNED = "ready-made models are no part of this engine: write a model_fn for Estimator"
_LOOP = "use tf.estimator.train_and_evaluate, or a ValidationMonitor"

__all__ = [
    "Estimator", "ModeKeys", "ModelFnOps", "RunConfig", "SummaryWriterCache", "monitors",
]  # fmt: skip

__getattr__ = absent(
    __name__,
    {
        **dict.fromkeys(
            (
                "DNNClassifier", "DNNRegressor", "DNNLinearCombinedClassifier", "LinearClassifier",
                "DNNLinearCombinedRegressor", "LinearRegressor", "KMeansClustering", "SVM",
            ),
            _CANNED,
        ),
        **dict.fromkeys(("Experiment", "learn_runner"), _LOOP),
        "MetricSpec": "pass functions of labels and predictions, by name: evaluate(metrics=...)",
        "infer_real_valued_columns_from_input": "feature columns are no part of this engine",
    },
)  # fmt: skip
