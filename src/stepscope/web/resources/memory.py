"""The page Memory: live bytes over time by owner, the tensors, the peak, and what was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from stepscope.analysis import memory_profile, oom
from stepscope.analysis.memory.tensor_lives import GROUPINGS, Alive, By, TensorLives, tensor_lives
from stepscope.errors import StepscopeError
from stepscope.metadata import readable
from stepscope.metadata.strings import StringColumn
from stepscope.web.resources.asked import CannotAnswerError, WrongParameterError
from stepscope.web.resources.columns import columns_of
from stepscope.web.resources.looked_at import LookedAt, looked_at
from stepscope.web.resources.session import NO_MEMORY

if TYPE_CHECKING:
    from stepscope.web.recordings import Recordings
    from stepscope.web.resources.asked import Asked

__all__ = ["instant", "memory"]

_POINTS: Final = 1_000
_MOST_OWNERS: Final = 12
_MOST_TENSORS: Final = 4_000
_MOST_ROWS: Final = 1_000
_OF_PROFILE: Final = {"kind": "op", "type": "op", "op": "op", "layer": "scope", "source": "source"}


def memory(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """The memory of a run on one of its devices."""
    here = looked_at(recordings, asked)
    by = asked.choice("by", GROUPINGS)
    if len(here.runs) > 1:
        raise WrongParameterError("run must be one run here")
    device = _device(here, asked)
    found: dict[str, Any] = here.kept(
        ("memory", device, by), lambda: _memory(here, device, cast("By", by))
    )
    return found


def _device(here: LookedAt, asked: Asked) -> str:
    peaks = {device: peak for device, peak in here.run.device_peaks().items() if peak}
    refused = here.run.out_of_memory
    if refused is not None and refused.request.device:
        peaks.setdefault(refused.request.device, 0)
    if not peaks:
        raise CannotAnswerError("no memory was recorded of this run", NO_MEMORY)
    wanted = asked.text("device")
    if not wanted:
        return max(peaks, key=lambda device: peaks[device])
    for device in peaks:
        if wanted in (device, readable.device(device)):
            return device
    raise WrongParameterError(
        f"device must be one of {', '.join(map(readable.device, peaks))}; it was {wanted!r}"
    )


def _lives(here: LookedAt, device: str) -> TensorLives:
    found: TensorLives = here.kept(("lives", device), lambda: tensor_lives(here.run, device))
    return found


def _memory(here: LookedAt, device: str, by: By) -> dict[str, Any]:
    run = here.run
    lives = _lives(here, device)
    profile = memory_profile([(here.name, run)], cast("Any", _OF_PROFILE[by]))
    found = next((one for one in profile.devices if one.device == device), None)
    at = lives.thinned(_POINTS)
    owners = lives.owners(by, at, _MOST_OWNERS)
    tensors, rest = _tensors(lives, at)
    refused = run.out_of_memory
    marks: list[dict[str, Any]] = []
    if lives.peak >= 0:
        marks.append({"ns": float(lives.moment[lives.peak]), "label": "peak", "kind": "peak"})
    value: dict[str, Any] = {
        "devices": [readable.device(name) for name, peak in run.device_peaks().items() if peak],
        "device": readable.device(device),
        "run": here.numbers[0],
        "by": by,
        "base_ns": str(lives.base_ns),
        "peak_bytes": found.peak_bytes if found else 0,
        "peak_ns": float(lives.moment[lives.peak]) if lives.peak >= 0 else None,
        "estimated": run.completeness.memory_is_estimated,
        "limit": refused.limit if refused is not None else None,
        "persistent_at_peak": found.persistent_at_peak if found else 0,
        "curve": {"ns": lives.moment[at], "bytes": lives.live[at]},
        "series": {
            "key": [owner.key for owner in owners],
            "bytes": np.concatenate([np.zeros(0), *(owner.bytes for owner in owners)]),
        },
        "tensors": tensors,
        "complete": rest is None,
        "rest": rest,
        "rows": columns_of([row for row in profile.rows if row.device == device][:_MOST_ROWS]),
        "oom": None,
        "marks": marks,
        "notes": _notes(here, lives, found.peak_bytes if found else 0),
        "folded": [],
    }
    if rest is not None:
        value["folded"].append(
            f"{len(lives.tensors):,} tensors, of which the {_MOST_TENSORS:,} largest are here; the "
            "others are one row"
        )
    if len(at) < len(lives.live):
        value["folded"].append(
            f"the curve has {len(lives.live):,} points; drawn is the highest of each stretch"
        )
    if refused is not None:
        try:
            value["oom"] = _refused(oom(run, cast("Any", _OF_PROFILE[by])))
        except StepscopeError:
            value["oom"] = None
        if refused.request.time_ns:
            at_ns = float(refused.request.time_ns - lives.base_ns)
            marks.append({"ns": at_ns, "label": "out of memory", "kind": "oom"})
    return value


def _refused(found: Any) -> dict[str, Any]:
    """The report of `stepscope oom`, without its curve, which is drawn."""
    plain: dict[str, Any] = found.to_dict()
    for name in ("time_ns", "live_bytes"):
        plain.pop(name, None)
    plain["rows"] = columns_of(found.rows[:_MOST_ROWS])
    return plain


def _notes(here: LookedAt, lives: TensorLives, counted: int) -> list[str]:
    notes = []
    if here.run.completeness.memory_is_estimated:
        notes.append("an estimate: nobody counted, the figures follow from what ops put out")
    if counted and not len(lives.live):
        notes.append("single allocations were not recorded: the peak is what the engine counted")
    elif counted > (known := int(lives.live.max(initial=0))) > 0:
        notes.append(
            f"the peak of {readable.size(counted)} is what the engine counted, "
            f"{readable.size(counted - known)} more than the allocations here sum to at most"
        )
    return notes


def _tensors(lives: TensorLives, at: Any) -> tuple[dict[str, Any], Any]:
    """The largest tensors, and at each point what the others come to; None where all are there."""
    every = lives.tensors
    if len(every) <= _MOST_TENSORS:
        return _table(every), None
    largest = np.sort(np.argsort(-every.bytes, kind="stable")[:_MOST_TENSORS])
    kept = every.select(largest)
    moments = lives.moment[at]
    begun = np.searchsorted(np.sort(kept.from_ns), moments, "right")
    in_order = np.argsort(kept.from_ns, kind="stable")
    gained = np.concatenate([[0], np.cumsum(kept.bytes[in_order])])[begun]
    by_end = np.argsort(kept.to_ns, kind="stable")
    over = np.searchsorted(kept.to_ns[by_end], moments, "right")
    lost = np.concatenate([[0], np.cumsum(kept.bytes[by_end])])[over]
    return _table(kept), (lives.live[at] - (gained - lost)).astype(np.float64)


def _table(tensors: Alive) -> dict[str, Any]:
    return {
        "name": tensors.names,
        "kind": tensors.kinds,
        "bytes": tensors.bytes,
        "from_ns": tensors.from_ns,
        "to_ns": tensors.to_ns,
        "shape": tensors.shapes,
        "dtype": tensors.dtypes,
        "line": _places(tensors.sources),
        "layer": tensors.layers,
        "address": tensors.address.astype(np.float64) if tensors.address.any() else None,
    }


def _places(lines: StringColumn) -> StringColumn:
    return StringColumn(lines.codes, tuple(readable.place(line) for line in lines.table))


def instant(recordings: Recordings, asked: Asked) -> dict[str, Any]:
    """The tensors that were live at a moment, largest first; their bytes and the rest sum to it."""
    here = looked_at(recordings, asked)
    lives = _lives(here, _device(here, asked))
    moment = asked.time("ns")
    place = int(np.searchsorted(lives.moment, moment, "right")) - 1
    live = int(lives.live[place]) if place >= 0 else 0
    alive = lives.tensors.at(moment)
    shown = alive.select(np.argsort(-alive.bytes, kind="stable")[:_MOST_ROWS])
    return {
        "ns": moment,
        "bytes": live,
        "tensors": len(alive),
        "rows": _table(shown),
        "rest_bytes": live - int(shown.bytes.sum()),
    }
