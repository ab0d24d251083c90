"""What all layers of `tf.layers` have in common: variables made on the first call, then reused.

Names are TensorFlow's. A layer's variables are in a variable scope of its own: its name, which the
function forms use as it is (so that `reuse` finds the variables again), or else the name of its
class made unique (`dense`, `dense_1`). Its ops are in the name scope of the same name.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, cast

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.constants import constant_value
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import DType, as_dtype
from stepscope.graph.graph import GraphKeys, name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.shapes import TensorShape
from stepscope.layers.variable_scope import VariableScope, get_variable, variable_scope
from stepscope.ops import structures
from stepscope.ops.arrays import conversion, shaping
from stepscope.ops.flow import conditionals

_P = ParamSpec("_P")
_WORD = re.compile(r"(?<=.)(?=[A-Z][a-z0-9])|(?<=[a-z])(?=[A-Z])")


class Layer:
    """A function of tensors with variables: subclasses have `build` and `call`.

    `build(input_shape)` makes the variables with `add_weight`, once, when the layer is first
    called; `call(inputs)` makes the ops, each time.
    """

    least_rank: ClassVar[int | None] = None
    exact_rank: ClassVar[int | None] = None

    def __init__(
        self, trainable: bool = True, name: str | None = None, dtype: Any = None, **more: Any
    ) -> None:
        scope, self._reuse = more.pop("_scope", None), more.pop("_reuse", None)
        self._activity_regularizer = more.pop("activity_regularizer", None)
        if more:
            raise TypeError(
                f"{type(self).__name__} takes no argument {', '.join(map(repr, more))}."
            )
        self.trainable = trainable
        self.built = False
        self._base_name = name or _snake_case(type(self).__name__)
        self._dtype = None if dtype is None else as_dtype(dtype).base_dtype
        self._scope: VariableScope | None = None
        if scope:
            with variable_scope(scope) as captured:
                self._scope = captured
        self._given_scope = self._scope
        self._trainable_weights: list[Any] = []
        self._other_weights: list[Any] = []
        self._losses: list[Tensor] = []
        self._updates: list[Any] = []

    # -- what subclasses have ------------------------------------------------------------------

    def build(self, input_shape: TensorShape) -> None:
        """Make the variables."""
        del input_shape

    def call(self, inputs: Any, **more: Any) -> Any:
        """Make the ops."""
        raise NotImplementedError

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The shape of the outputs for inputs of that shape."""
        raise NotImplementedError(
            f"Layer {self.name!r} ({type(self).__name__}) does not say the shape of its outputs: "
            "give it a method compute_output_shape(input_shape)."
        )

    # -- what they call ------------------------------------------------------------------------

    def add_weight(
        self,
        name: str,
        shape: Any,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Callable[[Tensor], Tensor | None] | None = None,
        trainable: bool | None = None,
        constraint: Any = None,
        use_resource: bool | None = None,
    ) -> Any:
        """A variable of the layer, made or, where the layer reuses, found again."""
        assert self._scope is not None
        trained = self.trainable and (trainable is None or trainable)
        known = set(map(id, get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES)))
        reuse = self.built or self._reuse
        with variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as scope:
            variable = get_variable(
                name, TensorShape(shape), self._dtype if dtype is None else dtype, initializer,
                trainable=trained, constraint=constraint, use_resource=use_resource,
                regularizer=_nothing,
            )  # fmt: skip
            chosen = scope.regularizer if regularizer is None else regularizer
            if chosen is not None and id(variable) not in known:
                with name_scope(f"{name}/Regularizer"):
                    loss = chosen(variable)
                if loss is not None:
                    self.add_loss(loss)
        (self._trainable_weights if trained else self._other_weights).append(variable)
        return variable

    add_variable = add_weight

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Count the losses among the layer's, and among the graph's regularization losses."""
        del inputs
        self._losses += _added(losses, GraphKeys.REGULARIZATION_LOSSES)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Count the ops among the layer's, and among those the graph wants run in training."""
        del inputs
        given = list(updates) if isinstance(updates, (list, tuple)) else [updates]
        self._updates += _added([getattr(u, "op", u) for u in given], GraphKeys.UPDATE_OPS)

    # -- what callers see ----------------------------------------------------------------------

    def __call__(self, inputs: Any, *args: Any, **more: Any) -> Any:
        self._set_scope(more.pop("scope", None))
        assert self._scope is not None
        reuse = self.built or self._reuse
        with (
            variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as scope,
            name_scope(scope.original_name_scope or None, self._base_name),
        ):
            inputs = self._checked(inputs)
            if not self.built:
                self._dtype = self._dtype or _first(inputs).dtype.base_dtype
                self.build(_first(inputs).shape)
                self.built = True
            outputs = self.call(inputs, *args, **more)
            if self._activity_regularizer is not None:
                self._regularize(outputs)
        return outputs

    apply = __call__

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A layer as this one was made, without variables: it makes its own when it is called."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in vars(self).items():
            setattr(made, name, _copied(value, memo))
        made.built, made._scope = False, self._given_scope
        made._trainable_weights, made._other_weights = [], []
        made._losses, made._updates = [], []
        return made

    @property
    def name(self) -> str:
        return self._scope.name if self._scope is not None else self._base_name

    @property
    def scope_name(self) -> str:
        if self._scope is None:
            raise ValueError(f"Layer {self._base_name!r} has no scope before its first call.")
        return self._scope.name

    @property
    def dtype(self) -> DType | None:
        return self._dtype

    @property
    def trainable_variables(self) -> list[Any]:
        return list(self._trainable_weights) if self.trainable else []

    @property
    def non_trainable_variables(self) -> list[Any]:
        kept = list(self._other_weights)
        return kept if self.trainable else [*self._trainable_weights, *kept]

    @property
    def variables(self) -> list[Any]:
        return [*self.trainable_variables, *self.non_trainable_variables]

    weights = variables
    trainable_weights = trainable_variables
    non_trainable_weights = non_trainable_variables

    @property
    def losses(self) -> list[Tensor]:
        return list(self._losses)

    @property
    def updates(self) -> list[Any]:
        return list(self._updates)

    def count_params(self) -> int:
        """The number of elements of all variables."""
        return sum(v.shape.num_elements() or 0 for v in self.variables)

    # -- inside --------------------------------------------------------------------------------

    def _set_scope(self, scope: Any) -> None:
        if self._scope is not None:
            return
        if self._reuse:
            opened = variable_scope(scope if scope is not None else self._base_name)
        else:
            opened = variable_scope(scope, default_name=self._base_name)
        with opened as captured:
            self._scope = captured

    def _checked(self, inputs: Any) -> Any:
        nested = isinstance(inputs, (list, tuple, Mapping))
        if nested and any(isinstance(i, Tensor) for i in structures.leaves(inputs)):
            return inputs
        tensor = convert_to_tensor(inputs, name="inputs")
        rank = tensor.shape.rank
        for wanted, wrong, what in (
            (self.exact_rank, rank != self.exact_rank, "ndim"),
            (self.least_rank, (rank or 0) < (self.least_rank or 0), "min_ndim"),
        ):
            if rank is not None and wanted is not None and wrong:
                raise ValueError(
                    f"Input 0 of layer {self.name} is incompatible with the layer: expected "
                    f"{what}={wanted}, found ndim={rank}. Full shape received: {tensor.shape} "
                    f"({tensor.name}, made at {tensor.op.source or 'an unknown place'})"
                )
        return tensor

    def _regularize(self, outputs: Any) -> None:
        with name_scope("ActivityRegularizer"):
            loss = self._activity_regularizer(outputs)
            if loss is not None:
                rows = conversion.cast(shaping.shape(outputs)[0], loss.dtype.base_dtype)
                self.add_loss(loss / rows)


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """Layers inside of a layer are copied with it; what else it holds is shared."""
    if isinstance(value, Layer):
        return copy.deepcopy(value, memo)
    if isinstance(value, (list, tuple)) and any(isinstance(item, Layer) for item in value):
        return type(value)([_copied(item, memo) for item in value])
    return value


def _nothing(_variable: Tensor) -> None:
    """In place of the scope's regularizer: the layer applies it, under a name of its own."""


def _first(inputs: Any) -> Tensor:
    tensor: Tensor = structures.leaves(inputs)[0]
    return tensor


def _added(items: Any, key: str) -> list[Any]:
    graph = get_default_graph()
    given = list(items) if isinstance(items, (list, tuple)) else [items]
    there = graph.get_collection(key)
    for item in given:
        if not any(item is other for other in there):
            graph.add_to_collection(key, item)
    return given


def _snake_case(name: str) -> str:
    return _WORD.sub("_", name).lower()


def applied(kind: Callable[..., Layer], arguments: dict[str, Any], **call: Any) -> Any:
    """The layer of a function form, called: `arguments` are the function's own, by name."""
    inputs, name = arguments.pop("inputs"), arguments.pop("name")
    reuse = arguments.pop("reuse", None)
    return kind(name=name, _scope=name, _reuse=reuse, **arguments)(inputs, **call)


def function_form(
    kind: Callable[_P, Layer], *, scoped: bool = True
) -> Callable[Concatenate[Any, _P], Tensor]:
    """A layer made and called at once: the class's arguments behind `inputs`, then `reuse`.

    The class says what the arguments are; its name in small letters is the function's. One that is
    not `scoped` has no variables: it takes no `reuse`, and a name that is taken is numbered.
    """

    def form(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        if not scoped:
            return kind(*given.args[1:], **given.kwargs)(given.args[0])
        given.apply_defaults()
        return applied(kind, dict(given.arguments))

    own = inspect.signature(kind).parameters.values()
    named = [one for one in own if one.kind is one.POSITIONAL_OR_KEYWORD]
    first = inspect.Parameter("inputs", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    last = [first.replace(name="reuse", default=None)] if scoped else []
    signature = inspect.Signature([first, *named, *last])
    form.__name__ = form.__qualname__ = _snake_case(getattr(kind, "__name__", ""))
    form.__module__, form.__doc__ = kind.__module__, kind.__doc__
    form.__signature__ = signature  # type: ignore[attr-defined]
    return cast("Callable[Concatenate[Any, _P], Tensor]", form)


def smart_cond(
    pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None
) -> Any:
    """One of the two functions, called now where the condition is known, else `tf.cond`."""
    known = known_truth(pred)
    if known is None:
        return conditionals.cond(pred, true_fn, false_fn, name=name)
    return true_fn() if known else false_fn()


def known_truth(pred: Any) -> bool | None:
    """The value of a condition where the graph alone decides it."""
    if isinstance(pred, Tensor):
        value = constant_value(pred)
        return None if value is None else bool(value)
    if isinstance(pred, (bool, int)) or pred in (0, 1):
        return bool(pred)
    raise TypeError(f"A condition must be a bool, 0, 1 or a tensor, not {pred!r}.")


def variables_dtype(kind: DType) -> DType:
    """The type of the variables of a layer that normalises: halves are too coarse for them."""
    return as_dtype("float32") if kind is as_dtype("float16") else kind


def window_numbers(value: Any, axes: int, what: str) -> tuple[int, ...]:
    """One number for all axes of a window, or one for each of them."""
    given = [value] * axes if isinstance(value, int) else list(value)
    if len(given) != axes or not all(isinstance(n, int) for n in given):
        wanted = "one integer" if axes == 1 else f"an integer or {axes} of them"
        raise ValueError(f"The `{what}` argument must be {wanted}. Received: {value!r}")
    return tuple(given)


def channels_first(data_format: str) -> bool:
    """Whether `data_format` is "channels_first"; ValueError if it is neither form."""
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(
            f'`data_format` must be "channels_last" or "channels_first". Received: {data_format!r}'
        )
    return data_format == "channels_first"


def defined(shape: TensorShape, axis: int, layer: str) -> int:
    """The length of an axis of the inputs, which the layer's variables depend on."""
    axes: Sequence[int | None] = shape.axes or ()
    length = axes[axis] if -len(axes) <= axis < len(axes) else None
    if length is None:
        which = "last dimension" if axis == -1 else f"dimension {axis}"
        raise ValueError(
            f"The {which} of the inputs to `{layer}` should be defined. Found `None` in {shape}."
        )
    return length
