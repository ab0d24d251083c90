"""What to call a function's run: by the function's name, and a step of Keras by what it does."""

from __future__ import annotations

from collections import deque
from typing import Any
from weakref import WeakKeyDictionary

_KERAS_STEPS = ("train_step", "test_step", "predict_step")
_LOOKED_AT = 50
"""How many objects behind a function are looked at for the step that it makes."""
_known: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def function_name(function: Any) -> str:
    """The name of a `tf.function`; `train_step` and its like for the functions Keras makes."""
    name = _known.get(function)
    if name is None:
        name = _known[function] = keras_step(function.python_function) or str(function._name)
    return name


def keras_step(python_function: Any) -> str:
    """What a function that Keras made does, `train_step` and its like; "" of any other."""
    module = str(getattr(python_function, "__module__", ""))
    if module.partition(".")[0] not in ("keras", "tf_keras"):
        return ""
    waiting = deque([python_function])
    seen: set[int] = set()
    while waiting and len(seen) < _LOOKED_AT:
        found = waiting.popleft()
        if id(found) in seen or not callable(found):
            continue
        seen.add(id(found))
        if getattr(found, "__name__", "") in _KERAS_STEPS:
            return str(found.__name__)
        for cell in getattr(found, "__closure__", None) or ():
            try:
                waiting.append(cell.cell_contents)
            except ValueError:  # an empty cell
                continue
        waiting.extend(
            getattr(found, name)
            for name in ("python_function", "__wrapped__")
            if hasattr(found, name)
        )
    made_in = str(getattr(python_function, "__qualname__", ""))
    return "predict_step" if "make_predict_function" in made_in else ""
