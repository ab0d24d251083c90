"""`tf.train.Example` and what it is made of, with TensorFlow's names and numbers.

>>> numbers = Feature(int64_list=Int64List(value=[3, 4]))
>>> example = Example(features=Features(feature={"numbers": numbers}))
>>> found = Example.FromString(example.SerializeToString())
>>> list(found.features.feature["numbers"].int64_list.value)
[3, 4]
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2

from stepscope._messages import message_classes

__all__ = [
    "BytesList",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "Int64List",
    "SequenceExample",
]

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE: Final = "stepscope.example"
_SCALARS: Final = {
    "bytes": _Field.TYPE_BYTES,
    "float": _Field.TYPE_FLOAT,
    "int64": _Field.TYPE_INT64,
}

# A field is "name number type": "*" stands for repeated, ">" for a map from strings, and "|" for
# a message of which there is only one.
_MESSAGES: Final = {
    "BytesList": "value 1 *bytes",
    "FloatList": "value 1 *float",
    "Int64List": "value 1 *int64",
    "Feature": "bytes_list 1 |BytesList, float_list 2 |FloatList, int64_list 3 |Int64List",
    "Features": "feature 1 >Feature",
    "FeatureList": "feature 1 *Feature",
    "FeatureLists": "feature_list 1 >FeatureList",
    "Example": "features 1 Features",
    "SequenceExample": "context 1 Features, feature_lists 2 FeatureLists",
}


def _add_field(message: Any, text: str) -> None:
    name, number, kind = text.split()
    plain = kind.lstrip("*|>")
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if kind[0] in "*>":
        field.label = _Field.LABEL_REPEATED
    if kind[0] == "|":
        if not message.oneof_decl:
            message.oneof_decl.add(name="kind")
        field.oneof_index = 0
    if kind[0] == ">":
        entry = message.nested_type.add(name="".join(w.title() for w in name.split("_")) + "Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
        _add_field(entry, f"value 2 {plain}")
        plain = f"{message.name}.{entry.name}"
    if plain in _SCALARS:
        field.type = _SCALARS[plain]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{plain}"


def _described() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="stepscope/example.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            _add_field(message, field)
    return file


_CLASSES: Final = message_classes(_described())

BytesList: Any = _CLASSES[f"{_PACKAGE}.BytesList"]
Example: Any = _CLASSES[f"{_PACKAGE}.Example"]
Feature: Any = _CLASSES[f"{_PACKAGE}.Feature"]
FeatureList: Any = _CLASSES[f"{_PACKAGE}.FeatureList"]
FeatureLists: Any = _CLASSES[f"{_PACKAGE}.FeatureLists"]
Features: Any = _CLASSES[f"{_PACKAGE}.Features"]
FloatList: Any = _CLASSES[f"{_PACKAGE}.FloatList"]
Int64List: Any = _CLASSES[f"{_PACKAGE}.Int64List"]
SequenceExample: Any = _CLASSES[f"{_PACKAGE}.SequenceExample"]
