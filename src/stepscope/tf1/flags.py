"""`tf.flags` and `tf.app.flags`."""

from absl.flags import (
    DuplicateFlagError,
    Error,
    FlagValues,
    IllegalFlagValueError,
    UnparsedFlagAccessError,
    UnrecognizedFlagError,
    ValidationError,
    declare_key_flag,
    mark_flag_as_required,
    mark_flags_as_mutual_exclusive,
    mark_flags_as_required,
    register_validator,
    validator,
)

from stepscope.programs.flags import (
    FLAGS,
    DEFINE_alias,
    DEFINE_bool,
    DEFINE_boolean,
    DEFINE_enum,
    DEFINE_float,
    DEFINE_integer,
    DEFINE_list,
    DEFINE_multi_enum,
    DEFINE_multi_float,
    DEFINE_multi_integer,
    DEFINE_multi_string,
    DEFINE_spaceseplist,
    DEFINE_string,
)
from stepscope.tf1._absent import absent

__all__ = [
    "FLAGS", "DEFINE_alias", "DEFINE_bool", "DEFINE_boolean", "DEFINE_enum", "DEFINE_float",
    "DEFINE_integer", "DEFINE_list", "DEFINE_multi_enum", "DEFINE_multi_float",
    "DEFINE_multi_integer", "DEFINE_multi_string", "DEFINE_spaceseplist", "DEFINE_string",
    "DuplicateFlagError", "Error", "FlagValues", "IllegalFlagValueError",
    "UnparsedFlagAccessError", "UnrecognizedFlagError", "ValidationError", "declare_key_flag",
    "mark_flag_as_required", "mark_flags_as_mutual_exclusive", "mark_flags_as_required",
    "register_validator", "validator",
]  # fmt: skip

__getattr__ = absent(__name__)
