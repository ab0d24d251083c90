"""What an op type is: its signature, its shape rule and how its kernel is made.

Ops register themselves when `stepscope.ops` is imported, each next to its kernel. Signatures use
the notation of TensorFlow's op definitions, so that a node means the same to both:

    inputs / outputs   "x: T"   "shape: int32"   "values: N * T"   "components: Tcomponents"
                       "ref: Ref(T)"   "refs: Ref(N * T)"
    attrs              "T: type"   "N: int"   "transpose_a: bool = false"   "Tout: list(type)"

The kernel contract is stated at `Kernel`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from stepscope.errors import UnimplementedError
from stepscope.graph.dtypes import Array, DType, as_dtype
from stepscope.graph.shapes import UNKNOWN, TensorShape

if TYPE_CHECKING:
    from stepscope.graph.operation import Operation


class _Required:
    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Final = _Required()


def coverage_page() -> str:
    """The path of the page that lists the op types there are, and the names programs use for them.

    It is part of the installed package; a clone has it among its documents.
    """
    package = Path(__file__).parents[1]
    installed = package / "ops.md"
    return str(installed if installed.exists() else package.parents[1] / "docs" / "ops.md")


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """One declared input or output of an op type."""

    name: str
    dtype: DType | None = None  # a fixed type
    type_attr: str = ""  # or the attr that holds the type
    number_attr: str = ""  # the attr that counts a homogeneous list
    type_list_attr: str = ""  # the attr that lists the types of a heterogeneous list
    is_ref: bool = False

    @property
    def is_list(self) -> bool:
        return bool(self.number_attr or self.type_list_attr)


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """One declared attribute: its kind as TensorFlow writes it, and its default."""

    name: str
    kind: str
    default: Any = REQUIRED


@dataclass(frozen=True, slots=True)
class Kernel:
    """How one node of one plan executes.

    `call` gets the input arrays in order (the run's context before them with `context`, a buffer
    for the output after them where `out` says so and the plan has one) and returns the output
    array; a tuple for ops with several outputs; None for ops with none. The rules:

    - It never writes to an input, except that an op may write its output into the buffer the plan
      gave it, which may *be* one of the inputs named in `forwards`.
    - An output that shares memory with an input is declared in `views`.
    - A kernel that keeps an input, or whose output may be kept or shared by somebody else (custom
      ops, Python functions), is `opaque`: the engine then never reuses those buffers.
    - A reference input (`Ref(T)`) and a resource arrive as the session's object itself.
    """

    call: Callable[..., Any]
    out: Literal["", "positional", "keyword"] = ""
    forwards: tuple[int, ...] = ()
    views: tuple[int, ...] = ()
    context: bool = False
    opaque: bool = False
    blocking: bool = False
    cost_ns: float | None = None
    """Estimated time of one call on one core; None lets the plan judge by the bytes moved."""
    threaded: bool = False
    """Whether a call spreads over BLAS's threads by itself."""
    spreads: bool = False
    """Whether a call spreads over the cores by itself, and wants one BLAS thread on each."""
    value: Any = None
    """The output, where it never changes (constants): such a node has nothing to execute."""


@dataclass(frozen=True, slots=True)
class KernelNode:
    """What a kernel factory may know about its node: shapes as far as the plan knows them."""

    op: Operation
    input_shapes: tuple[TensorShape, ...]
    output_shapes: tuple[TensorShape, ...]
    input_dtypes: tuple[DType, ...]
    output_dtypes: tuple[DType, ...]
    constants: tuple[Any, ...]
    """Per input its value where the plan knows it (never to be written to), else None."""
    resources: Any
    """The session's `ResourceStore`."""
    device: str = ""
    """Where the node was placed."""

    @property
    def name(self) -> str:
        return self.op.name

    def attr(self, name: str) -> Any:
        return self.op.get_attr(name)


@dataclass(frozen=True, slots=True)
class ShapeContext:
    """What a shape rule may look at."""

    op_type: str
    attrs: Mapping[str, Any]
    inputs: tuple[TensorShape, ...]
    dtypes: tuple[DType, ...]
    constants: Callable[[int], Array | None] = field(default=lambda _i: None)
    """The value of input i where it is known when the graph is built."""

    shape_values: Callable[[int], TensorShape] = field(default=lambda _i: UNKNOWN)
    """Input i read as a shape, as far as its elements are known."""

    def input(self, index: int) -> TensorShape:
        return self.inputs[index]

    def constant_as_shape(self, index: int) -> TensorShape:
        return self.shape_values(index)

    def constant(self, index: int) -> Array | None:
        return self.constants(index)

    def attr(self, name: str) -> Any:
        return self.attrs[name]


ShapeRule = Callable[[ShapeContext], "TensorShape | Sequence[TensorShape]"]
KernelFactory = Callable[[KernelNode], Kernel]
Gradient = Callable[..., Any]
"""`gradient(op, *gradients of its outputs)` gives one gradient, or None, per input (a single one
needs no list). An output nobody differentiates arrives as zeros."""


@dataclass(frozen=True, slots=True)
class OpType:
    """A registered op type."""

    name: str
    inputs: tuple[ArgSpec, ...]
    outputs: tuple[ArgSpec, ...]
    attrs: Mapping[str, AttrSpec]
    shape: ShapeRule
    kernel: KernelFactory | None
    stateful: bool = False
    gradient: Gradient | None = None
    """How a gradient goes back through the op; None where it has none."""

    def input_dtypes(self, attrs: Mapping[str, Any]) -> list[DType]:
        return [d for arg in self.inputs for d in arg_dtypes(arg, attrs)]

    def output_dtypes(self, attrs: Mapping[str, Any]) -> list[DType]:
        return [d for arg in self.outputs for d in arg_dtypes(arg, attrs)]


def arg_dtypes(arg: ArgSpec, attrs: Mapping[str, Any]) -> list[DType]:
    """The dtypes of the tensors an argument stands for, once the attrs are known."""
    if arg.type_list_attr:
        return list(attrs[arg.type_list_attr])
    dtype = arg.dtype if arg.dtype is not None else attrs[arg.type_attr]
    if arg.is_ref:
        dtype = dtype.as_ref
    return [dtype] * (int(attrs[arg.number_attr]) if arg.number_attr else 1)


_REGISTRY: dict[str, OpType] = {}


def register(
    name: str,
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    attrs: Sequence[str] = (),
    shape: ShapeRule | None = None,
    kernel: KernelFactory | None = None,
    stateful: bool = False,
    gradient: Gradient | None = None,
    again: bool = False,
) -> OpType:
    """Register an op type. Without a shape rule its outputs have unknown shapes."""
    if name in _REGISTRY and not again:
        raise ValueError(f"An op type {name!r} is registered already.")
    specs = {spec.name: spec for spec in map(_parse_attr, attrs)}
    op_type = OpType(
        name=name,
        inputs=tuple(_parse_arg(text, specs) for text in inputs),
        outputs=tuple(_parse_arg(text, specs) for text in outputs),
        attrs=specs,
        shape=shape or _unknown_outputs,
        kernel=kernel,
        stateful=stateful,
        gradient=gradient,
    )
    _REGISTRY[name] = op_type
    return op_type


def gradient(*names: str) -> Callable[[Gradient], Gradient]:
    """Decorate the gradient function of op types that are registered already."""

    def add(function: Gradient) -> Gradient:
        for name in names:
            _REGISTRY[name] = replace(_REGISTRY[name], gradient=function)
        return function

    return add


def no_gradient(*names: str) -> None:
    """Op types whose output does not change with their inputs: gradients end there, silently."""
    gradient(*names)(lambda op, *_: [None] * len(op.inputs))


def lookup(name: str) -> OpType:
    """The op type of that name; UnimplementedError naming the closest ones otherwise."""
    try:
        return _REGISTRY[name]
    except KeyError:
        close = difflib.get_close_matches(name, _REGISTRY, n=3, cutoff=0.6)
        hint = f" Close: {', '.join(close)}." if close else ""
        raise UnimplementedError.without_op(
            f"Op type not registered: {name!r}.{hint} {coverage_page()} lists all."
        ) from None


def is_registered(name: str) -> bool:
    return name in _REGISTRY


def registered() -> Iterator[OpType]:
    """All op types, by name."""
    return (_REGISTRY[name] for name in sorted(_REGISTRY))


def infer_shapes(op_type: OpType, context: ShapeContext) -> tuple[TensorShape, ...]:
    """The output shapes by the op's rule, one per output tensor."""
    result = op_type.shape(context)
    shapes = (result,) if isinstance(result, TensorShape) else tuple(result)
    expected = len(op_type.output_dtypes(context.attrs))
    if len(shapes) != expected:
        raise AssertionError(
            f"The shape rule of {op_type.name} gave {len(shapes)} shapes for {expected} outputs."
        )
    return shapes


def _unknown_outputs(context: ShapeContext) -> list[TensorShape]:
    return [UNKNOWN] * len(lookup(context.op_type).output_dtypes(context.attrs))


_ARG = re.compile(
    r"^(?P<name>\w+):\s*(?P<ref>Ref\()?(?:(?P<n>\w+)\s*\*\s*)?(?P<type>\w+)(?(ref)\))$"
)
_ATTR = re.compile(r"^(?P<name>\w+):\s*(?P<kind>[\w()]+)(?:\s*=\s*(?P<default>.+))?$")


def _parse_arg(text: str, attrs: Mapping[str, AttrSpec]) -> ArgSpec:
    match = _ARG.match(text)
    if match is None:
        raise ValueError(f"Cannot read the argument declaration {text!r}.")
    kind = match["type"]
    number = match["n"] or ""
    is_ref = bool(match["ref"])
    if kind in attrs:
        if attrs[kind].kind == "list(type)":
            return ArgSpec(match["name"], type_list_attr=kind)
        return ArgSpec(match["name"], type_attr=kind, number_attr=number, is_ref=is_ref)
    return ArgSpec(match["name"], dtype=as_dtype(kind), number_attr=number, is_ref=is_ref)


def _parse_attr(text: str) -> AttrSpec:
    match = _ATTR.match(text)
    if match is None:
        raise ValueError(f"Cannot read the attribute declaration {text!r}.")
    kind, raw = match["kind"], match["default"]
    return AttrSpec(match["name"], kind, REQUIRED if raw is None else _default(kind, raw.strip()))


def _default(kind: str, raw: str) -> Any:
    if kind == "type":
        return as_dtype(raw)
    if kind == "shape":
        return UNKNOWN if raw == "unknown" else TensorShape(json.loads(raw))
    if kind == "list(type)":
        return [as_dtype(t) for t in re.findall(r"\w+", raw)]
    if kind == "string":
        return json.loads(raw.replace("'", '"')).encode()
    value = json.loads(raw)
    return float(value) if kind == "float" else value
