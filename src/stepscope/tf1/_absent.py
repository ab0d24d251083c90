"""What a name that is not there answers: an error that says so and lists what is close."""

from __future__ import annotations

import difflib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from stepscope.graph.registry import COVERAGE_PAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

ROOT = "stepscope.tf1"
_MOST_SHOWN = 5
_SUBMODULES = (
    "nn", "math", "random", "linalg", "queue", "train", "summary", "errors", "layers", "losses",
    "metrics", "initializers", "contrib.layers",
)  # fmt: skip


def absent(module: str, reasons: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """The `__getattr__` of a module of this package; pass its `__name__`.

    The error names the module as TensorFlow does: `tensorflow.nn`, not `stepscope.tf1.nn`. For a
    name in `reasons` it says what that tells, in place of what is close.
    """

    def __getattr__(name: str) -> NoReturn:  # noqa: N807
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise AttributeError(
            f"module {public_name(module)!r} (Stepscope's embedded engine) has no attribute "
            f"{name!r}; {(reasons or {}).get(name) or _why(module, name)}. {COVERAGE_PAGE} lists "
            "the names that are there",
            name=name,
        )

    return __getattr__


_ELSEWHERE = {
    "function": "a TensorFlow 2 function: build a graph and run it in a tf.Session",
    "GradientTape": "TensorFlow 2's way to differentiate: use tf.gradients",
    "Module": "TensorFlow 2's: use tf.layers.Layer or plain functions",
    "keras": "Keras is no part of this engine: use tf.layers and tf.losses",
    "estimator": "Estimator is no part of this engine: use tf.train.MonitoredTrainingSession",
    "data": "tf.data is no part of this engine: feed arrays, or use tf.train.batch and queues",
    "distribute": "TensorFlow 2's: place ops with tf.device",
    "slim": "use tf.layers",
    "enable_resource_variables": "pass use_resource=True to tf.get_variable or tf.variable_scope",
}


def _why(module: str, name: str) -> str:
    """What to use in place of a name of another age of TensorFlow, or else what is close."""
    return _ELSEWHERE.get(name) or close_to(module, name)


def public_name(module: str) -> str:
    """`stepscope.tf1.nn` as TensorFlow calls it."""
    return module.replace(ROOT, "tensorflow", 1)


def close_to(module: str, name: str) -> str:
    """`close: ...`: names of the module like `name`, and where else that very name is."""
    found = difflib.get_close_matches(name, _names(module), n=_MOST_SHOWN, cutoff=0.6)
    known = {id(value) for value in (getattr(sys.modules.get(module), n, None) for n in found)}
    for place, names in _public_modules():
        if place != module and name in names:
            value = getattr(sys.modules[place], name)
            if id(value) not in known:
                known.add(id(value))
                found.insert(0, f"{public_name(place)}.{name}")
    if not found:
        return "nothing it has is close"
    return f"close: {', '.join(found[:_MOST_SHOWN])}"


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
