import pytest

from stepscope.cli.output import wording


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (9_918, "9.92 µs"),
        (9_996, "10.0 µs"),
        (12_345, "12.3 µs"),
        (99_700, "99.7 µs"),
        (99_960, "100 µs"),
        (999_400, "999 µs"),
        (999_600, "1.00 ms"),
        (1_234_567, "1.23 ms"),
        (41_234_567_890, "41.2 s"),
        (5_000_000_000_000, "5,000 s"),
    ],
)
def test_time(ns, shown):
    assert wording.time(ns) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "-"),
        (8, "8 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (3_996_000, "3.81 MiB"),
        (1 << 40, "1.00 TiB"),
    ],
)
def test_size(count, shown):
    assert wording.size(count) == shown


def test_numbers_and_names():
    assert wording.number(1, "run") == "1 run"
    assert wording.number(12_000, "run") == "12,000 runs"
    assert wording.share(0.1234) == "12.3%"
    assert wording.device("/job:localhost/replica:0/task:0/device:CPU:1") == "CPU:1"
    assert wording.device("/job:ps/replica:0/task:1/device:CPU:0") == "ps:1/CPU:0"
