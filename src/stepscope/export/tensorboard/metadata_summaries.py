"""Run metadata as summaries: whole as a text, or single fields as values of their own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import text_format

from stepscope import _messages as pb
from stepscope.export.tensorboard.summaries import scalar, text
from stepscope.metadata import RunMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FENCE: Final = "```"
_NODE_STATS: Final = ("step_stats", "dev_stats", "node_stats")
_NAMES: Final = ("device", "node_name", "name", "node", "allocator_name", "what", "slot", "key")
"""The fields that tell the entries of a repeated field apart, where they have one."""


def metadata_text(metadata: RunMetadata, tag: str) -> Any:
    """A text summary with all of the metadata in it, in protobuf's text form."""
    message = pb.RunMetadataMessage.FromString(metadata.SerializeToString())
    return text(tag, f"{_FENCE}\n{text_format.MessageToString(message)}{_FENCE}")


def metadata_from_text(summary_text: str | bytes) -> RunMetadata:
    """The run that a text summary of `add_metadata_text` holds; `ValueError` for any other text."""
    content = summary_text.decode() if isinstance(summary_text, bytes) else summary_text
    inner = content.strip().removeprefix(_FENCE).removesuffix(_FENCE)
    try:
        message = text_format.Parse(inner, pb.RunMetadataMessage())
    except text_format.ParseError as error:
        raise ValueError(
            f"this text does not hold run metadata in protobuf's text form: {error}"
        ) from error
    return RunMetadata.FromString(message.SerializeToString())


def field_values(metadata: RunMetadata, fields: Iterable[str]) -> list[Any]:
    """A summary value for each value that the fields have: numbers as scalars, else as text.

    A field is a path through the message ("overhead.fraction"), or through `NodeExecStats`
    ("all_end_rel_micros", "memory.peak_bytes"). Repeated fields on the way give a value each,
    tagged with the field and what names the entries: `all_end_rel_micros/<device>/<node>`; a tag
    that comes again (a node that ran twice) is numbered: `... #2`.
    """
    message = pb.RunMetadataMessage.FromString(metadata.SerializeToString())
    if isinstance(fields, str):
        fields = (fields,)
    used: Counter[str] = Counter()
    parts = []
    for field in fields:
        path = _path(field)
        asked = ".".join(path[3:] if path[:3] == _NODE_STATS else path)
        for labels, value in _walk(message, path):
            tag = "/".join((asked, *(label.lstrip("/") for label in labels)))
            used[tag] += 1
            if used[tag] > 1:
                tag = f"{tag} #{used[tag]}"
            parts.append(_part(tag, value))
    return parts


def _path(field: str) -> tuple[str, ...]:
    names = tuple(field.split("."))
    if names[0] in pb.NodeExecStats.DESCRIPTOR.fields_by_name:
        names = (*_NODE_STATS, *names)
    descriptor = pb.RunMetadataMessage.DESCRIPTOR
    for place, name in enumerate(names):
        known = descriptor.fields_by_name if descriptor is not None else {}
        if name not in known:
            where = ".".join(names[:place]) or "RunMetadata"
            has = f"it has {', '.join(known)}" if known else "it is a plain value"
            raise ValueError(
                f"{field!r} asks for {name!r} of {where}, which has no such field; {has}"
            )
        descriptor = known[name].message_type
    if descriptor is not None and not descriptor.GetOptions().map_entry:
        inside = ", ".join(f"{field}.{name}" for name in descriptor.fields_by_name)
        raise ValueError(f"{field!r} is a message and not a single value; say which: {inside}")
    return names


def _walk(message: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values at the end of the path, each with the names of the entries on the way."""
    name, rest = path[0], path[1:]
    field = message.DESCRIPTOR.fields_by_name[name]
    value = getattr(message, name)
    if not _repeated(message, name):
        if rest:
            yield from _walk(value, rest)
        else:
            yield (), _named(field, value)
        return
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        yield from (((str(key),), found) for key, found in sorted(value.items()))
        return
    for index, entry in enumerate(value):
        label = _label(entry, index) if rest else str(index)
        if rest:
            for labels, found in _walk(entry, rest):
                yield (label, *labels), found
        else:
            yield (label,), _named(field, entry)


def _repeated(message: Any, name: str) -> bool:
    # The descriptor says it in one way before protobuf 6 and in another since.
    return not isinstance(getattr(message, name), pb.Message | int | float | str | bytes)


def _label(entry: Any, index: int) -> str:
    known = entry.DESCRIPTOR.fields_by_name
    for name in _NAMES:
        if name in known and (name == "slot" or getattr(entry, name)):
            return str(getattr(entry, name))
    return str(index)


def _named(field: Any, value: Any) -> Any:
    """The name of an enum's number."""
    return field.enum_type.values_by_number[value].name if field.enum_type is not None else value


def _part(tag: str, value: Any) -> Any:
    if isinstance(value, int | float):
        return scalar(tag, value)
    return text(tag, value.decode(errors="replace") if isinstance(value, bytes) else value)
