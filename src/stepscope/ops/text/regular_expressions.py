r"""Regular expressions on strings: replacing what matches (`tf.regex_replace`).

Patterns are RE2's in TensorFlow and Python's here: what both have means the same. Texts are UTF-8,
classes as `\w` hold ASCII alone, and `[[:alpha:]]` and its kin are known.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, no_gradient, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.io.files import text_of
from stepscope.ops.signatures import exactly_rank, same_shape

__all__ = ["regex_replace"]

_CLASSES: Final = {
    "[:alpha:]": "a-zA-Z", "[:digit:]": "0-9", "[:alnum:]": "a-zA-Z0-9", "[:upper:]": "A-Z",
    "[:lower:]": "a-z", "[:space:]": r"\t\n\v\f\r ", "[:blank:]": r"\t ", "[:xdigit:]": "0-9a-fA-F",
    "[:punct:]": r"!-/:-@\[-`{-~", "[:word:]": r"0-9A-Za-z_",
}  # fmt: skip
_REFERENCE: Final = re.compile(r"\\(\d|\\)")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


@functools.lru_cache(256)
def compiled(pattern: bytes) -> re.Pattern[str]:
    """The pattern; InvalidArgumentError where Python cannot read it."""
    text = _decoded(pattern)
    for name, members in _CLASSES.items():
        text = text.replace(name, members)
    try:
        return re.compile(re.sub(r"(?<!\\)\\z", r"\\Z", text), re.ASCII)
    except re.error as error:
        raise InvalidArgumentError.without_op(
            f"Invalid pattern: {_decoded(pattern)}, error: {error}"
        ) from None


def _replaced(pattern: re.Pattern[str], rewrite: str, everywhere: bool, text: bytes) -> bytes:
    parts, at, last = [], 0, -1
    source = _decoded(text)
    for match in pattern.finditer(source):
        if match.start() == match.end() == last:
            continue  # nothing, right after a match: RE2 does not take it for another
        last = match.end()
        parts += [source[at : match.start()], _written(rewrite, match)]
        at = match.end()
        if not everywhere:
            break
    return "".join([*parts, source[at:]]).encode("utf-8", "surrogateescape")


def _written(rewrite: str, match: re.Match[str]) -> str:
    def part(reference: re.Match[str]) -> str:
        return "\\" if reference[1] == "\\" else match[int(reference[1])] or ""

    return _REFERENCE.sub(part, rewrite)


def _replacement(pattern: bytes, rewrite: bytes, everywhere: bool, texts: Any) -> Any:
    expression, written = compiled(pattern), _decoded(rewrite)
    groups = [int(found) for found in _REFERENCE.findall(written) if found != "\\"]
    source = np.asarray(texts, dtype=object)
    if max(groups, default=0) > expression.groups:
        return source.copy()  # as in TensorFlow, a rewrite that cannot be done changes nothing
    out = np.empty(source.size, dtype=object)
    for i, text in enumerate(source.ravel()):
        out[i] = _replaced(expression, written, everywhere, text)
    return out.reshape(source.shape)


def _static_kernel(node: KernelNode) -> Kernel:
    pattern, rewrite = node.attr("pattern"), node.attr("rewrite")
    everywhere = node.attr("replace_global")
    return Kernel(lambda texts: _replacement(pattern, rewrite, everywhere, texts))


def _kernel(node: KernelNode) -> Kernel:
    everywhere = node.attr("replace_global")
    return Kernel(
        lambda texts, pattern, rewrite: _replacement(
            text_of(pattern), text_of(rewrite), everywhere, texts
        )
    )


def _shape(c: ShapeContext) -> TensorShape:
    exactly_rank(c.input(1), 0)
    exactly_rank(c.input(2), 0)
    return c.input(0)


register(
    "StaticRegexReplace",
    inputs=["input: string"],
    outputs=["output: string"],
    attrs=["pattern: string", "rewrite: string", "replace_global: bool = true"],
    shape=same_shape,
    kernel=_static_kernel,
)
register(
    "RegexReplace",
    inputs=["input: string", "pattern: string", "rewrite: string"],
    outputs=["output: string"],
    attrs=["replace_global: bool = true"],
    shape=_shape,
    kernel=_kernel,
)
no_gradient("RegexReplace")


def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
) -> Tensor:
    r"""Each text with what matches the pattern replaced; in `rewrite`, `\1` is the first group.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.regex_replace("a-1 b-22", "([a-z])-([0-9]+)", r"\2\1"))
    b'1a 22b'
    """
    if isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes)):
        attrs = {"pattern": pattern, "rewrite": rewrite, "replace_global": replace_global}
        return apply_op("StaticRegexReplace", input, name=name, **attrs).values()[0]
    op = apply_op("RegexReplace", input, pattern, rewrite, replace_global=replace_global, name=name)
    return op.values()[0]
