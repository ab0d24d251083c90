"""`retraces`: which functions were traced again, and by what."""

from __future__ import annotations

import pytest

from recorded_program import MS, keras_like, note, run, trace
from stepscope.analysis import retraces
from stepscope.metadata.program_notes import PROCESS
from stepscope.store import Store


def tensor(shape, dtype="float32", path="x"):
    return ["tensor", path, dtype, shape]


def value(text, kind="int", path="n"):
    return ["value", path, kind, text]


@pytest.fixture
def traced(tmp_path):
    """What there is to say of graphs that were built for these arguments, 10 ms each."""

    def retraced(*arguments, **details):
        with Store(tmp_path) as store:
            store.note(note(PROCESS, 0, 100, "train.py"))
            for place, one in enumerate(arguments):
                own = {name: values[place] for name, values in details.items()}
                store.note(trace(10 * place, 10 * place + 10, "step", one, **own))
            store.add(run(0, 100, [("MatMul", 90, 95)]), "step")
        return retraces(store.path)

    return retraced


def causes(found):
    return [(row.cause, row.argument, row.values, row.times) for row in found.rows]


def test_a_number_that_changes(traced):
    found = traced(
        [tensor("[4]"), value("1")], [tensor("[4]"), value("2")], [tensor("[4]"), value("3")]
    )
    assert causes(found) == [("value", "n", ("1", "2", "3"), 2)]
    [row] = found.rows
    assert (row.function, row.where, row.defined) == ("step", "train.py:30", "train.py:10")
    assert (row.lost_ns, row.nodes, row.grew_bytes) == (20 * MS, 48, 8192)
    assert row.advice == "pass n as a tensor (tf.constant): each number gets a graph of its own"
    assert (found.traces, found.trace_ns, found.lost_ns) == (3, 30 * MS, 20 * MS)


def test_a_smaller_last_batch(traced):
    found = traced([tensor("[32, 64]")], [tensor("[17, 64]")])
    assert causes(found) == [("shape", "x", ("float32[32,64]", "float32[17,64]"), 1)]
    assert "drop_remainder" in found.rows[0].advice


def test_shapes_that_keep_changing(traced):
    found = traced([tensor("[1]")], [tensor("[2]")], [tensor("[3]")])
    assert causes(found)[0][:2] == ("shape", "x")
    assert "reduce_retracing" in found.rows[0].advice


def test_two_arguments_that_change_in_turn_are_two_causes(traced):
    found = traced(
        [tensor("[8]"), value("0")], [tensor("[4]"), value("0")],
        [tensor("[8]"), value("1")], [tensor("[4]"), value("1")],
    )  # fmt: skip
    assert {(cause, name, times) for cause, name, _, times in causes(found)} == {
        ("shape", "x", 2),
        ("value", "n", 1),
    }


def test_another_type_and_another_structure(traced):
    found = traced(
        [tensor("[4]")], [tensor("[4]", "float64")], [["tensor", "x[0]", "float32", "[4]"]]
    )
    assert causes(found) == [
        ("type", "x", ("float32[4]", "float64[4]"), 1),
        ("structure", "x", ("x", "x[0]"), 1),
    ]


def test_objects_that_look_alike(traced):
    model = ["object", "f", "function", "<lambda> of train.py:7"]
    found = traced([model], [model])
    assert causes(found)[0][:2] == ("new object", "f")
    assert found.rows[0].advice == "pass the same object for f each time: make it once"


def test_a_function_that_is_made_anew(traced):
    found = traced([tensor("[4]")], [tensor("[4]")], [tensor("[4]")], function=[1, 2, 3])
    assert causes(found) == [("new function", "", (), 2)]
    assert "make the function once" in found.rows[0].advice


def test_functions_of_one_definition_from_several_lines_are_several(traced):
    lines = ["train.py:30", "train.py:40"]
    assert not traced([tensor("[4]")], [tensor("[4]")], function=[1, 2], where=lines).rows


def test_what_a_library_makes_for_each_dataset_is_no_loop(traced):
    two = traced([tensor("[4]")], [tensor("[4]")], function=[1, 2], own=[False] * 2)
    assert not two.rows
    assert two.traces == 2


def test_what_a_library_makes_in_a_loop_is_told_by_the_line(traced):
    lines = ["fit.py:5", "fit.py:9", "fit.py:5", "fit.py:9", "fit.py:9", "fit.py:9"]
    found = traced(
        *[[tensor("[4]")]] * 6, function=[1, 2, 3, 4, 5, 6], own=[False] * 6, where=lines
    )
    assert [(row.where, row.times) for row in found.rows] == [("fit.py:9", 3)]
    assert "make it once" in found.rows[0].advice


def test_the_second_graph_of_a_function_that_makes_variables_is_no_retrace(traced):
    found = traced([tensor("[4]")], [tensor("[4]")], creates_variables=[True, False])
    assert not found.rows
    again = traced(
        [tensor("[4]")], [tensor("[4]")], [tensor("[5]")], creates_variables=[True, False, False]
    )
    assert causes(again)[0][:2] == ("shape", "x")


def test_another_context(traced):
    found = traced([tensor("[4]")], [tensor("[4]")])
    assert causes(found) == [("same arguments", "", (), 1)]


def test_time_is_counted_once_where_graphs_lie_inside_each_other(tmp_path):
    found = retraces(keras_like(tmp_path))
    assert (found.traces, found.trace_ns) == (3, (150 + 40) * MS)
    assert causes(found) == [("shape", "x", ("float32[32,64]", "float32[17,64]"), 1)]
