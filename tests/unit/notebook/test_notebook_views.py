"""Runs and analyses in a notebook: tables of what they say, plots, and names that are text."""

import dataclasses
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import stepscope
from analysed_runs import run_of
from recorded_program import keras_like, slow_map, waiting_for_input
from stepscope import analysis
from stepscope._messages import GraphDef
from stepscope.analysis import op_profile
from stepscope.metadata import (
    AllocationColumns,
    Completeness,
    Loss,
    RunMetadata,
    Status,
    iter_runs,
)
from stepscope.metadata.memory.out_of_memory import MemoryRequest, out_of_memory

HOSTILE = "</td><script>alert('x')</script>&amp;\"quoted\""
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
CLASSIFY = Path(__file__).parents[3] / "docs" / "questions" / "recorded" / "classify"
T0 = 1_700_000_000_000_000_000


def memory():
    return AllocationColumns.build(
        name=["w", HOSTILE, HOSTILE, "small"],
        device=[CPU] * 4,
        time_ns=[T0, T0 + 1_000, T0 + 500_000, T0 + 1_000_000],
        bytes=[1_000, 3_000, -3_000, 500],
        address=[1, 2, 2, 3],
        kind=["variable", "temporary", "temporary", "temporary"],
    )


@pytest.fixture
def run():
    return run_of(
        (HOSTILE, "MatMul", [], 1, 0, 0, 3_000_000),
        ("b", "Relu", [HOSTILE], 2, 3_000_000, 4_000_000, 5_000_000),
        names={1: f"pool {HOSTILE}"},
        allocations=memory,
        status=Status("INTERNAL", HOSTILE),
        completeness=Completeness((Loss("events", 12, HOSTILE),)),
    )


def graph():
    message = GraphDef()
    message.node.add(name=HOSTILE, op="MatMul")
    message.node.add(name="gone", op="Neg")
    return message


def growing():
    """An owner with a hostile name that holds a kilobyte more each time that the run begins."""
    held = [
        run_of(
            ("b", "Relu", [], 2, 0, 0, 1_000_000),
            allocations=lambda size=size: AllocationColumns.build(
                name=[HOSTILE], device=[CPU], time_ns=[T0], bytes=[size], event=["held"],
                kind=["queue"],
            ),
        )
        for size in range(2048, 2048 * 12, 2048)
    ]  # fmt: skip
    found = analysis.memory_growth([("run_000001 train", one) for one in held])
    assert [row.bytes for row in found.rows] == [2048]
    return found


VIEWS = {
    "run": lambda run: run,
    "op_profile": lambda run: analysis.op_profile(run, "name"),
    "memory_profile": analysis.memory_profile,
    "memory_growth": lambda run: growing(),
    "critical_path": analysis.critical_path,
    "parallelism": analysis.parallelism,
    "placement": analysis.placement,
    "coverage": lambda run: analysis.coverage(run, graph()),
    "diff": lambda run: analysis.diff([ended_well(run)] * 4, [ended_well(run)] * 4),
}


def ended_well(run):
    """The run as it would be if it had not failed: others are not compared."""
    same = RunMetadata.FromString(run.SerializeToString())
    same._mutable().ClearField("status")
    return same


def parsed(shown):
    """The view as a tree: it is well-formed, as anything is that a name cannot break out of."""
    return ET.fromstring(shown._repr_html_())


def texts(tree):
    return ["".join(cell.itertext()) for cell in tree.iter() if cell.tag in ("td", "th", "text")]


CAUSES = {
    "why_op": lambda run: analysis.why_op(run, "b"),
    "why_run": lambda run: analysis.why_run([(0, ended_well(run))], 0),
    "why_bytes": analysis.why_bytes,
}
"""Of an empty run there is nothing to ask."""


@pytest.mark.parametrize("name", [*VIEWS, *CAUSES])
def test_names_are_text(name, run):
    tree = parsed({**VIEWS, **CAUSES}[name](run))
    assert not list(tree.iter("script"))
    assert any(HOSTILE[-25:] in text for text in texts(tree))


def test_who_held_memory_at_an_instant_is_a_table_of_scopes(run):
    shown = analysis.memory_flame(run)._repr_html_()
    assert "3.42 KiB" in shown or "3.91 KiB" in shown
    assert "<script>" not in shown


@pytest.mark.parametrize("name", VIEWS)
def test_an_empty_run_shows_too(name):
    empty = run_of()
    tree = parsed(VIEWS[name](empty))
    assert "".join(tree.itertext())


def test_a_run_says_how_it_ended_and_where_its_time_went(run):
    tree = parsed(run)
    rows = [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]
    assert ["status", f"INTERNAL: {HOSTILE}"] in rows
    assert ["not measured", f"12 events: {HOSTILE}"] in rows
    assert ["MatMul", "1", "3.00 ms", "75.0%", ""] in rows
    bars = [float(rect.get("width")) for rect in tree.iter("rect")]
    assert bars == [120.0, 40.0]


def test_the_plot_of_memory_reaches_the_peak(run):
    tree = parsed(analysis.memory_profile(run))
    live, lasting = tree.iter("polygon")
    heights = [110 - float(point.split(",")[1]) for point in live.get("points").split()]
    assert max(heights) == 110
    assert heights[-2] == pytest.approx(1_500 / 4_000 * 110, abs=0.1)
    lasting = [110 - float(point.split(",")[1]) for point in lasting.get("points").split()]
    assert max(lasting) == pytest.approx(1_000 / 4_000 * 110, abs=0.1)


def test_lanes_are_drawn_where_they_were_busy(run):
    found = analysis.parallelism(run)
    tree = parsed(found)
    drawn = [rect for rect in tree.iter("rect") if rect.get("fill") != "currentColor"]
    first = [float(r.get("x")) for r in drawn if r.get("y") == "1"]
    assert min(first) == 170
    assert max(first) == pytest.approx(170 + 470 * 0.6, abs=10)
    assert len(list(tree.iter("text"))) == len(found.rows)


def test_many_rows_are_cut_and_counted():
    run = run_of(*[(f"op_{i}", "Mul", [], 1, i, i, i + 1) for i in range(100)])
    tree = parsed(analysis.op_profile(run, "name"))
    assert len(list(tree.iter("tr"))) == 31
    assert "and 70 more rows" in "".join(tree.itertext())


def test_names_are_never_squeezed_into_a_column_of_letters():
    long = "gradients/a_long_scope/another_long_scope/SparseSoftmaxCrossEntropyWithLogits"
    run = run_of(("a", "MatMul", [], 1, 0, 0, 10), (long, "Relu", ["a"], 1, 0, 10, 20))
    cells = [td for td in parsed(analysis.critical_path(run)).iter("td") if td.text in ("a", long)]
    assert len(cells) >= 2
    assert all("min-width" in td.get("style") for td in cells)


def test_a_whole_program(tmp_path):
    program = keras_like(tmp_path)
    tree = parsed(analysis.account(program))
    shown = texts(tree)
    assert "train.py: 1.00 s" in "".join(tree.itertext())
    assert {"importing modules", "310 ms", "31.0%", "tensorflow", "train.py:1"} <= set(shown)
    tree = parsed(analysis.retraces(program))
    shown = texts(tree)
    assert "3 graphs of functions traced in 190 ms, 40.0 ms of it again" in "".join(tree.itertext())
    assert {"shape", "float32[32,64] → float32[17,64]", "train.py:30"} <= set(shown)


def test_an_input_pipeline(tmp_path):
    shown = texts(parsed(analysis.input_pipeline(waiting_for_input(tmp_path, slow_map()))))
    assert {"map", "input.py:6", "20.0 ms", "a prefetch at the end"} <= set(shown)


def test_one_is_not_several():
    one = "".join(parsed(analysis.memory_profile(run_of(allocations=memory))).itertext())
    assert "memory of 1 run" in one
    assert "1 runs" not in one


def test_a_long_message_keeps_its_lines_and_a_report_on_memory_is_left_to_its_own_view():
    lines = ["first", "second", "third", "fourth", "fifth", "sixth"]
    shown = texts(parsed(run_of(status=Status("INTERNAL", "\n".join(lines)))))
    assert "INTERNAL: first\nsecond\nthird\nfourth\n(2 more lines)" in shown
    report = out_of_memory(MemoryRequest("big", 4096, CPU), memory(), limit=5_000)
    failed = run_of(status=Status("RESOURCE_EXHAUSTED", report.text()), out_of_memory=report)
    (said,) = (text for text in texts(parsed(failed)) if "RESOURCE" in text)
    assert said.startswith("RESOURCE_EXHAUSTED: big asked for 4.00 KiB on CPU:0; ")
    assert "\n" not in said


def test_a_result_remembers_the_runs_it_was_made_of_and_is_equal_without():
    runs = list(iter_runs(CLASSIFY))
    profile = op_profile(runs)
    assert profile.show().content == profile.show(runs).content
    assert b'data-start="page=ops"' in profile.show().content
    again = dataclasses.replace(profile)
    assert again == profile
    assert again.to_dict() == profile.to_dict()
    with pytest.raises(ValueError, match=r"give them, as in result\.show\(runs\)"):
        again.show()


def test_a_result_of_an_iterator_asks_for_its_runs():
    with pytest.raises(ValueError, match="this OpProfile does not have its runs"):
        op_profile(iter_runs(CLASSIFY)).show()


def test_a_path_is_shown():
    assert stepscope.show(str(CLASSIFY)).content == stepscope.show(CLASSIFY).content
