"""Random graphs: every byte has one owner at every instant, and a limit decides to the byte."""

import numpy as np
import pytest
from graph_executors import session_of, with_options
from hypothesis import given
from random_graphs import specs

from random_examples import examples
from stepscope.errors import ResourceExhaustedError
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions

FAR_LIMIT = ({"memory_limit_bytes": 1 << 40}, RunOptions(inter_op_thread_pool=-1), False)
PERSISTENT = {"variable", "queue", "feed"}


def replay(rows):
    """Check every row against a count of its own; returns what is left, and the peaks by device."""
    owned: dict[tuple, list[int]] = {}
    live: dict[str, int] = {}
    peaks: dict[str, int] = {"": 0}
    for i in range(len(rows)):
        device, size = rows.device[i], int(rows.bytes[i])
        owner = (device, rows.name[i], int(rows.slot[i]), int(rows.address[i]))
        if rows.event[i] == "free":
            assert owned.get(owner), f"{owner} is freed, and was not there"
            assert owned[owner].pop(0) == -size
        else:
            assert rows.event[i] in ("allocate", "held")
            assert size >= 0
            owned.setdefault(owner, []).append(size)
        live[device] = live.get(device, 0) + size
        assert live[device] == sum(
            sum(sizes) for (where, *_), sizes in owned.items() if where == device
        )
        peaks[device] = max(peaks.get(device, 0), live[device])
        peaks[""] = max(peaks[""], sum(live.values()))
    left = {owner: sizes for owner, sizes in owned.items() if sizes}
    return left, peaks


@pytest.mark.parametrize("executor", ["caller's thread", "default", "pool of four"])
@examples(60)
@given(drawn=specs())
def test_every_byte_has_one_owner_at_every_instant(executor, drawn):
    spec, example = drawn
    with session_of(spec, executor) as (session, built, options):
        fetches = [built.tensors[i] for i in spec.fetches]
        full = with_options(options, trace_level=3)
        for _ in range(2):
            metadata = RunMetadata()
            session.run(
                fetches, {built.tensors[i]: v for i, v in example.items()}, options=full,
                run_metadata=metadata,
            )  # fmt: skip
            rows = metadata.allocations
            assert (np.diff(rows.time_ns) >= 0).all()
            left, peaks = replay(rows)
            kinds = {
                (rows.device[i], rows.name[i], int(rows.slot[i]), int(rows.address[i])):
                rows.kind[i] for i in range(len(rows))
            }  # fmt: skip
            assert {kinds[owner] for owner in left} <= PERSISTENT
            for device, peak in peaks.items():
                assert metadata.peak_bytes(device or None) == peak
            held = {h.op: h.bytes for h in session._resources.holdings()}
            variables = {o[1]: sum(s) for o, s in left.items() if kinds[o] == "variable"}
            assert variables == held
            for device in {h.device for h in session._resources.holdings()}:
                assert session._resources.held.on(device) == sum(
                    h.bytes for h in session._resources.holdings() if h.device == device
                )


@examples(60)
@given(drawn=specs(max_devices=1))
def test_a_limit_decides_to_the_byte(drawn):
    spec, feeds = drawn
    with session_of(spec, "caller's thread") as (session, built, options):
        fetches = [built.tensors[i] for i in spec.fetches]
        fed = {built.tensors[i]: v for i, v in feeds.items()}
        metadata = RunMetadata()
        full = with_options(options, trace_level=3)
        session.run(fetches, fed, options=full, run_metadata=metadata)
        peak = metadata.peak_bytes()
    if not peak:
        return
    for limit, fits in ((peak, True), (peak - 1, False)):
        if not limit:
            continue
        with session_of(spec, FAR_LIMIT) as (session, built, options):
            # The initializers have run; from now on the limit is near.
            device = session.list_devices()[0].name
            session._allocator.limits[device] = limit
            fetches = [built.tensors[i] for i in spec.fetches]
            fed = {built.tensors[i]: v for i, v in feeds.items()}
            metadata = RunMetadata()
            wanted = with_options(options, report_allocations_on_oom=True)
            if fits:
                session.run(fetches, fed, options=wanted, run_metadata=metadata)
            else:
                with pytest.raises(ResourceExhaustedError):
                    session.run(fetches, fed, options=wanted, run_metadata=metadata)
                report = metadata.out_of_memory
                assert sum(row.bytes for row in report.rows) == report.live
                assert report.live <= limit < report.live + report.request.bytes
                assert metadata.peak_bytes(device) <= limit
            assert session._allocator.live(device) == session._resources.held.on(device)
