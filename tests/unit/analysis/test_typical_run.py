"""Which of several runs is looked at where nobody said which."""

from stepscope.analysis.typical_run import typical_run
from stepscope.metadata import OpColumns, Recording, RunMetadata


def run(names, length, engine="TensorFlow function"):
    count = len(names)
    columns = OpColumns.build(
        name=names, op=["Op"] * count, device=["/device:CPU:0"] * count, thread=[1] * count,
        scheduled_ns=[0] * count, start_ns=[0] * count, end_ns=[length] * count,
    )  # fmt: skip
    metadata = RunMetadata()
    metadata.record(Recording(engine=engine, ops=lambda: columns))
    return metadata


STEP = [f"step/{i}" for i in range(10)]


def test_the_step_is_taken_rather_than_the_longest_run():
    runs = [run(["init"], 500), *(run(STEP, n) for n in (90, 30, 10, 40)), run(["Mul", "Add"], 999)]
    chosen = typical_run(enumerate(runs))
    assert chosen.number == 2
    assert chosen.why == "the run of median length of 4 alike, of 6 in all"


def test_runs_that_lack_a_few_ops_are_alike():
    runs = [run(["init"], 500), run(STEP, 10), run(STEP[1:], 20), run(STEP[:-1], 30)]
    assert typical_run(enumerate(runs)).number == 2


def test_of_runs_that_were_not_repeated_the_longest_but_no_eager_code():
    runs = [run(["a"], 10), run(["b"], 20), run(["Mul"], 999, "TensorFlow eager")]
    chosen = typical_run(enumerate(runs))
    assert (chosen.number, chosen.why) == (1, "the longest of 3 runs")
    assert typical_run([(3, runs[2])]).number == 3


def test_one_run_needs_no_word():
    assert typical_run([(0, run([], 0))]).why == ""
