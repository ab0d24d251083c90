"""Custom ops: a Python function as an op type of its own, with a dtype and a shape rule.

    @stepscope.register_op("ScaleRows", inputs=["x", "factor"], shape="x")
    def scale_rows(x, factor, *, power=1):
        return x * factor[:, None] ** power

    y = scale_rows(tensor, [1.0, 2.0], power=2)          # a tensor of tensor's dtype and shape

The function is called with NumPy arrays each time the node runs, with the op's attributes as
keywords. Its node is timed and its memory counted like any other. Guarantees: the arrays it gets
are its own, to write to and to keep; what it returns is copied, so it may keep that too; what it
raises becomes the error `py_func` would raise; a result that is not of the declared dtype or shape
is an InvalidArgumentError that names both.
"""

from __future__ import annotations

import functools
import inspect
import json
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op
from stepscope.graph.dtypes import Array, DType, as_dtype
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, is_registered, register
from stepscope.graph.shapes import UNKNOWN, TensorShape, as_shape
from stepscope.ops.python_functions import call_user_code, own_output

Rule = Any
"""For one output: a dtype or shape, or the name of the input whose own it has."""

_KINDS: Final[Mapping[type, str]] = {bool: "bool", int: "int", float: "float", str: "string"}


def register_op(
    name: str,
    function: Callable[..., Any] | None = None,
    *,
    inputs: int | Sequence[str] | Mapping[str, Any] = 1,
    outputs: int | Sequence[str] = 1,
    dtype: Rule = None,
    shape: Rule = None,
    gradient: Callable[..., Any] | None = None,
    stateful: bool = False,
) -> Any:
    """Register a Python function as an op type; returns the function that makes its nodes.

    With `function` left out it is a decorator.

    - `inputs`: how many, or their names, or a dict of names to fixed dtypes (None for any).
    - `outputs`: how many, or their names. With none the node makes an operation.
    - `dtype`: what the outputs have: a dtype, the name of an input ("as that one"), or a list with
      one of these per output. As the first input if left out (float32 if there is none).
    - `shape`: likewise: a shape (None for an unknown axis), the name of an input, a list of these,
      or a function from the input shapes (`TensorShape`s) to the output's shape or a list of them.
      Unknown if left out.
    - `gradient`: how gradients go back: a function of the `Operation` and the gradient of each
      output (tensors) that returns the gradient of each input, or None, in a list (a single one
      needs none). Without it, gradients that meet the op are a LookupError.
    - `stateful`: calls with equal inputs may differ, so the node is never evaluated ahead.

    Keyword-only parameters of the function that have a bool, int, float or str default are the
    op's attributes: keywords of the returned function, stored in the node.
    """
    if function is None:
        return lambda given: register_op(
            name, given, inputs=inputs, outputs=outputs, dtype=dtype, shape=shape,
            gradient=gradient, stateful=stateful,
        )  # fmt: skip
    spec = _Spec.read(name, function, inputs, outputs, dtype, shape)
    register(
        name,
        inputs=spec.input_declarations(),
        outputs=[f"{o}: {t}" for o, t in zip(spec.outputs, spec.output_types, strict=True)],
        attrs=spec.attr_declarations(),
        shape=spec.infer,
        kernel=spec.kernel,
        stateful=stateful,
        gradient=gradient,
    )
    return spec.maker()


@dataclass(frozen=True)
class _Spec:
    """What was registered, checked."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    input_types: tuple[DType | None, ...]
    outputs: tuple[str, ...]
    output_types: tuple[str, ...]
    """Per output the name of a dtype, or of the attribute that holds it."""
    shape: Callable[[Sequence[TensorShape]], Sequence[TensorShape]]
    attrs: Mapping[str, Any]
    """The function's keywords, with their defaults."""

    @classmethod
    def read(
        cls,
        name: str,
        function: Callable[..., Any],
        inputs: int | Sequence[str] | Mapping[str, Any],
        outputs: int | Sequence[str],
        dtype: Rule,
        shape: Rule,
    ) -> _Spec:
        if not isinstance(name, str) or not name.isidentifier() or not name[0].isupper():
            raise ValueError(
                f"An op type's name is an identifier that begins with a capital, as in "
                f"'ScaleRows', not {name!r}."
            )
        if is_registered(name):
            raise ValueError(f"An op type {name!r} is registered already; choose another name.")
        if not callable(function):
            raise TypeError(f"register_op({name!r}) needs a function to call, not {function!r}.")
        types: dict[str, DType | None]
        if isinstance(inputs, Mapping):
            types = {n: None if t is None else as_dtype(t) for n, t in inputs.items()}
            listed = list(types)
        else:
            listed = _names(name, "inputs", inputs, "x")
            types = dict.fromkeys(listed)
        _check_names(name, "inputs", listed)
        results = _names(name, "outputs", outputs, "y")
        attrs = _attributes(name, function, len(listed))
        clash = sorted(set(listed) & set(attrs))
        if clash:
            raise ValueError(f"{name}: {clash[0]!r} is both an input and an attribute.")
        return cls(
            name,
            function,
            tuple(listed),
            tuple(types.values()),
            tuple(results),
            tuple(_output_type(name, r, types) for r in _per_output(name, "dtype", dtype, results)),
            _shape_rule(name, shape, listed, results),
            attrs,
        )

    def input_declarations(self) -> list[str]:
        return [
            f"{name}: {_type_attr(name) if dtype is None else dtype.name}"
            for name, dtype in zip(self.inputs, self.input_types, strict=True)
        ]

    def attr_declarations(self) -> list[str]:
        free = [n for n, t in zip(self.inputs, self.input_types, strict=True) if t is None]
        declared = [f"{_type_attr(name)}: type" for name in free]
        for name, default in self.attrs.items():
            declared.append(f"{name}: {_KINDS[type(default)]} = {json.dumps(default)}")
        return declared

    def infer(self, context: ShapeContext) -> Sequence[TensorShape]:
        shapes = self.shape(context.inputs)
        if len(shapes) != len(self.outputs):
            raise ValueError(
                f"The shape rule of {self.name} gave {len(shapes)} shapes for "
                f"{len(self.outputs)} outputs"
            )
        return shapes

    def kernel(self, node: KernelNode) -> Kernel:
        keywords = {name: _plain(node.attr(name)) for name in self.attrs}
        types, shapes = node.output_dtypes, node.output_shapes

        def call(*arrays: Any) -> Any:
            owned = [np.array(a) for a in arrays]
            return self.checked(call_user_code(self.function, *owned, **keywords), types, shapes)

        return Kernel(call, opaque=True)

    def checked(self, result: Any, types: Sequence[DType], shapes: Sequence[TensorShape]) -> Any:
        """Copies of what the function returned, once they are what was declared."""
        count = len(self.outputs)
        if count == 0:
            return None
        values = (result,) if count == 1 else result
        if not isinstance(values, (list, tuple)) or len(values) != count:
            found = f"{len(values)} values" if isinstance(values, (list, tuple)) else repr(values)
            raise InvalidArgumentError.without_op(
                f"{self.name} declares {count} outputs ({', '.join(self.outputs)}), but its "
                f"function returned {found}.",
            )
        arrays: list[Array] = []
        for name, value, dtype, shape in zip(self.outputs, values, types, shapes, strict=True):
            where = f"Output {name!r} of {self.name}"
            array = own_output(value, dtype.base_dtype, where)
            if not shape.is_compatible_with(array.shape):
                raise InvalidArgumentError.without_op(
                    f"{where} has shape {TensorShape(array.shape).brief()}, but {shape.brief()} "
                    "is declared.",
                )
            arrays.append(array)
        return arrays[0] if count == 1 else tuple(arrays)

    def maker(self) -> Callable[..., Any]:
        inputs, attrs = self.inputs, self.attrs

        @functools.wraps(self.function)
        def make(*args: Any, name: str | None = None, **keywords: Any) -> Any:
            if len(args) != len(inputs):
                raise TypeError(
                    f"{self.name} takes {len(inputs)} inputs ({', '.join(inputs)}), but "
                    f"{len(args)} were given."
                )
            unknown = sorted(set(keywords) - set(attrs))
            if unknown:
                known = ", ".join(attrs) or "none"
                raise TypeError(f"{self.name} has no attribute {unknown[0]!r}; it has: {known}.")
            op = apply_op(self.name, *args, name=name, **keywords)
            outputs: list[Tensor] = op.outputs
            return op if not outputs else outputs[0] if len(outputs) == 1 else outputs

        return make


def _type_attr(name: str) -> str:
    return f"T_{name}"


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _names(op: str, what: str, given: Any, letter: str) -> list[str]:
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 0:
            raise ValueError(f"{op}: {what}={given} is no number of {what}.")
        return [letter] if given == 1 else [f"{letter}{i}" for i in range(given)]
    if isinstance(given, str) or not isinstance(given, (list, tuple)):
        raise TypeError(f"{op}: {what} is a number or a list of names, not {given!r}.")
    names = list(given)
    _check_names(op, what, names)
    return names


def _check_names(op: str, what: str, names: Sequence[Any]) -> None:
    for name in names:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"{op}: {name!r} in {what} is no identifier.")
    if len(set(names)) != len(names):
        raise ValueError(f"{op}: {what} has a name twice: {list(names)}.")


def _attributes(op: str, function: Callable[..., Any], inputs: int) -> dict[str, Any]:
    """The keyword-only parameters; ValueError if the function cannot take the inputs."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return {}
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in positional)
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if inputs < needed or (inputs > len(positional) and not takes_any):
        raise ValueError(
            f"{op} declares {inputs} inputs, but its function takes "
            f"{needed if needed == len(positional) else f'{needed} to {len(positional)}'}."
        )
    attrs = {}
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY:
            if type(p.default) not in _KINDS:
                raise ValueError(
                    f"{op}: the keyword {p.name!r} of its function becomes an attribute and needs "
                    "a bool, int, float or str default."
                )
            attrs[p.name] = p.default
    return attrs


def _per_output(op: str, what: str, rule: Rule, outputs: Sequence[str]) -> list[Any]:
    if not isinstance(rule, list):
        return [rule] * len(outputs)
    if len(rule) != len(outputs):
        raise ValueError(
            f"{op}: {what} lists {len(rule)} rules for {len(outputs)} outputs; give one each."
        )
    return rule


def _output_type(op: str, rule: Any, inputs: Mapping[str, DType | None]) -> str:
    if rule is None:
        rule = next(iter(inputs), "float32")
    if isinstance(rule, str) and rule in inputs:
        fixed = inputs[rule]
        return _type_attr(rule) if fixed is None else fixed.name
    try:
        return as_dtype(rule).base_dtype.name
    except TypeError:
        known = ", ".join(inputs) or "none"
        raise ValueError(
            f"{op}: dtype {rule!r} is neither a dtype nor the name of an input ({known})."
        ) from None


def _shape_rule(
    op: str, rule: Rule, inputs: Sequence[str], outputs: Sequence[str]
) -> Callable[[Sequence[TensorShape]], Sequence[TensorShape]]:
    if callable(rule):

        def computed(shapes: Sequence[TensorShape]) -> Sequence[TensorShape]:
            result = rule(*shapes)
            several = len(outputs) != 1 and isinstance(result, (list, tuple))
            return [as_shape(s) for s in (result if several else [result])]

        return computed
    # A list is one rule per output, unless it can only be read as one shape.
    if isinstance(rule, list) and all(isinstance(d, int) or d is None for d in rule):
        rule = as_shape(rule)
    rules = [_one_shape(op, r, inputs) for r in _per_output(op, "shape", rule, outputs)]
    return lambda shapes: [shapes[r] if isinstance(r, int) else r for r in rules]


def _one_shape(op: str, rule: Any, inputs: Sequence[str]) -> int | TensorShape:
    """The index of the input whose shape it is, or the shape."""
    if rule is None:
        return UNKNOWN
    if isinstance(rule, str):
        if rule in inputs:
            return inputs.index(rule)
        raise ValueError(
            f"{op}: shape {rule!r} is not the name of an input ({', '.join(inputs) or 'none'})."
        )
    try:
        return as_shape(rule)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{op}: {rule!r} is no shape: {error}") from None
