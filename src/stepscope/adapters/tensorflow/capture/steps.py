"""Names of `stepscope.metadata.xplane`, for the files that had them from here."""

from stepscope.metadata.xplane import ANNOTATION, COMPILED, FIRST_NODE, Described, Row, Step

__all__ = ["ANNOTATION", "COMPILED", "FIRST_NODE", "Described", "Row", "Step"]
