"""The map of the code: folders one can take in at a glance, and names that mean one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import stepscope

SOURCE = Path(stepscope.__file__).parent
BY_CONTRACT = {"Estimator", "ModeKeys", "RunConfig", "Session", "TraceHook"}
"""TensorFlow has `tf.estimator`'s and `tf.contrib.learn`'s under one name, and users of either
engine find its session and its hook under the same."""


def trees():
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def test_a_public_class_has_a_name_of_its_own():
    places = defaultdict(list)
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(SOURCE).as_posix())
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert {n: found for n, found in twice.items() if n not in BY_CONTRACT} == {}
    assert twice.keys() == BY_CONTRACT, "a name that is no longer there twice needs no exception"
