"""What a model holds and does, by scopes, ops or lines: what TensorFlow 1 had as `tf.profiler`.

A `ModelProfile` is filled with a graph and with runs of it, a view is made of it as
`ProfileOptions` ask, and the view is a message or a text.
"""

from stepscope.analysis.model_profile.advice import CHECKERS, advice
from stepscope.analysis.model_profile.nodes import (
    TRAINABLE,
    Frame,
    ModelProfile,
    Numbers,
    ProfiledNode,
    shapes_of_runs,
)
from stepscope.analysis.model_profile.options import ProfileOptions
from stepscope.analysis.model_profile.profile_context import ContextStep, ProfileSteps
from stepscope.analysis.model_profile.report import framed, report
from stepscope.analysis.model_profile.results import message_of
from stepscope.analysis.model_profile.views import VIEWS, View, ViewPlace, view_of

__all__ = [
    "CHECKERS",
    "TRAINABLE",
    "VIEWS",
    "ContextStep",
    "Frame",
    "ModelProfile",
    "Numbers",
    "ProfileOptions",
    "ProfileSteps",
    "ProfiledNode",
    "View",
    "ViewPlace",
    "advice",
    "framed",
    "message_of",
    "report",
    "shapes_of_runs",
    "view_of",
]
