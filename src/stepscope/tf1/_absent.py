"""What a name that is not there answers: an error that says so and lists what is close."""

from __future__ import annotations

import difflib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from stepscope.graph.registry import coverage_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = "stepscope.tf1"
_MOST_SHOWN = 5
_A_SLIP = 0.8
"""How alike two names are that differ by a slip of the keys; less alike ones mislead."""
_SUBMODULES = (
    "nn", "math", "random", "linalg", "queue", "train", "summary", "errors", "layers", "losses",
    "metrics", "initializers", "image", "io", "sparse", "python_io", "strings", "lookup",
    "contrib.layers", "contrib.lookup", "contrib.rnn", "contrib.legacy_seq2seq", "graph_util",
)  # fmt: skip


def absent(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module of this package; pass its `__name__`.

    The error names the module as TensorFlow does: `tensorflow.nn`, not `stepscope.tf1.nn`.
    """

    def __getattr__(name: str) -> NoReturn:  # noqa: N807
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise AttributeError(
            f"module {public_name(module)!r} (Stepscope's embedded engine) has no attribute "
            f"{name!r}; {what_to_do(module, name)}",
            name=name,
        )

    return __getattr__


def what_to_do(module: str, name: str) -> str:
    """What to use in place of a name that is not there: what is close, or the real TensorFlow."""
    listed = f"{coverage_page()} lists the names that are there"
    of_module = _ELSEWHERE.get(module.removeprefix(ROOT).removeprefix("."), {})
    instead = of_module.get(name) or _ELSEWHERE[""].get(name)
    close = "" if instead else close_to(module, name)
    if close:
        return f"{close}. {listed}"
    said = f"{instead or 'nothing it has is close'}. {listed}"
    if "contrib" in (*module.split("."), name):
        return f"{said}; TensorFlow 2 has no contrib either"
    return (
        f"{said}; where TensorFlow is installed, `stepscope run --engine tensorflow` runs the "
        "program on it"
    )


def _all(names: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


_ELSEWHERE: Final[dict[str, dict[str, str]]] = {
    "": {
        "function": "a TensorFlow 2 function: build a graph and run it in a tf.Session",
        "GradientTape": "TensorFlow 2's way to differentiate: use tf.gradients",
        "Module": "TensorFlow 2's: use tf.layers.Layer or plain functions",
        "keras": "Keras is no part of this engine: use tf.layers and tf.losses",
        "distribute": "TensorFlow 2's: place ops with tf.device",
        "enable_resource_variables": "pass use_resource=True to tf.get_variable or "
        "tf.variable_scope",
    },
    "contrib.learn": {
        **_all(
            "DNNClassifier DNNRegressor DNNLinearCombinedClassifier LinearClassifier "
            "DNNLinearCombinedRegressor LinearRegressor KMeansClustering SVM",
            "ready-made models are no part of this engine: write a model_fn for Estimator",
        ),
        **_all(
            "Experiment learn_runner",
            "use tf.estimator.train_and_evaluate, or a ValidationMonitor",
        ),
        "MetricSpec": "pass functions of labels and predictions, by name: evaluate(metrics=...)",
        "infer_real_valued_columns_from_input": "feature columns are no part of this engine",
    },
    "contrib.learn.monitors": _all(
        "CheckpointSaver ExportMonitor GraphDump LoggingTrainable StepCounter",
        "use the hook of tf.train for it: fit takes hooks among the monitors",
    ),
    "estimator": {
        **_all(
            "BaselineClassifier BaselineRegressor BoostedTreesClassifier BoostedTreesRegressor "
            "DNNClassifier DNNRegressor DNNLinearCombinedClassifier DNNLinearCombinedRegressor "
            "LinearClassifier LinearRegressor",
            "ready-made models are no part of this engine: write a model_fn for "
            "tf.estimator.Estimator",
        ),
        **_all(
            "export Exporter BestExporter FinalExporter LatestExporter",
            "saved models are not exported by this engine: use the checkpoints of model_dir",
        ),
        "WarmStartSettings": "restore what is wanted in tf.train.Scaffold(init_fn=...)",
    },
    "estimator.inputs": {
        "pandas_input_fn": "pass the columns' arrays: numpy_input_fn(dict(frame), ...)",
    },
    "train": {
        **_all("Checkpoint CheckpointManager", "TensorFlow 2's: use tf.train.Saver"),
        **_all(
            "Server ClusterSpec WorkerSessionCreator replica_device_setter",
            "the embedded engine runs in this process; a session with a grpc:// target does not",
        ),
    },
}
"""By module, what to use in place of names that are not there; those of the top one hold in all."""


def public_name(module: str) -> str:
    """`stepscope.tf1.nn` as TensorFlow calls it."""
    return module.replace(ROOT, "tensorflow", 1)


def close_to(module: str, name: str) -> str:
    """`close: ...`: names that `name` may be a slip of, and where else that very name is; or ""."""
    spelled = {known.lower(): known for known in _names(module)}
    slips = difflib.get_close_matches(name.lower(), spelled, n=_MOST_SHOWN, cutoff=_A_SLIP)
    found = [spelled[slip] for slip in slips]
    known = {id(value) for value in (getattr(sys.modules.get(module), n, None) for n in found)}
    for place, names in _public_modules():
        if place != module and name in names:
            value = getattr(sys.modules[place], name)
            if id(value) not in known:
                known.add(id(value))
                found.insert(0, f"{public_name(place)}.{name}")
    return f"close: {', '.join(found[:_MOST_SHOWN])}" if found else ""


def _names(module: str) -> list[str]:
    return public_names(sys.modules[module]) if module in sys.modules else []


def public_names(module: ModuleType) -> list[str]:
    """What a user may use of a module: `__all__` where it has one."""
    names: Iterable[str] = getattr(module, "__all__", None) or vars(module)
    return sorted(name for name in names if not name.startswith("_"))


def _public_modules() -> list[tuple[str, list[str]]]:
    """The top module and those right below it: what programs reach as `tf.x` and `tf.nn.x`."""
    below = [f"{ROOT}.{name}" for name in _SUBMODULES]
    return [(name, _names(name)) for name in (ROOT, *below) if name in sys.modules]
