"""`stepscope report`: the viewer and its data in one HTML file.

The file asks nobody for anything: script and style sheet are in it, and a policy that allows no
request. Resources are `<script type="application/x-stepscope" data-resource="KEY">` elements, each
the bytes that the server would have sent, deflated, in base64; many small ones of a kind are
bundled (`data-bundle="NAME"`, a mapping of keys to values).

What is about all runs is always there. Then come the runs, those that are most worth a look first:
each with its timeline, graph, memory and ops, in ever more detail, as long as there is room. What
did not fit is said in `session.folded`. No figure changes by that.
"""

from __future__ import annotations

import base64
import hashlib
import html
import zlib
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.errors import StepscopeError
from stepscope.metadata.readable import number, size
from stepscope.web.frames import encoded
from stepscope.web.page_files import page, page_file
from stepscope.web.resources import answer
from stepscope.web.resources.asked import Asked, CannotAnswerError, WrongParameterError, key_of
from stepscope.web.resources.graph import flow_of
from stepscope.web.resources.looked_at import LookedAt, looked_at
from stepscope.web.resources.panel import shown_op
from stepscope.web.resources.search import nodes_of
from stepscope.web.resources.session import typical
from stepscope.web.resources.timeline import shaped
from stepscope.whole_files import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepscope.web.recordings import Recordings

__all__ = ["MAX_SIZE", "Report", "make_report", "write_report"]

MAX_SIZE: Final = 20_000_000
_DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {
    "ops": {"by": "type"},
    "icicle": {"of": "scope", "by": "time"},
    "graph": {"scope": ""},
    "memory": {"by": "kind", "device": ""},
    "compare": {"base": "0", "new": "1", "by": "name"},
}
"""What the page leaves out of a key; so it does with the run, where it is the typical one."""
_BY: Final = ("type", "name", "layer", "line", "file", "function", "device", "thread")
_MEMORY_BY: Final = ("kind", "op", "type", "layer", "source")
_LEAF: Final = 20_000
"""A tile of a report is whole with so many executions: more are one file's worth of small ones."""
_MOST_PANELS: Final = 2_000
_MOST_SCOPES: Final = 500
_FEW_RUNS: Final = 5
"""So many runs are all shown one by one; of more, those that differ: most are like the typical."""
_ALL_TOGETHER: Final = 50_000
_NO_PAGE: Final = (
    "the viewer's page is not in this installation, so there is nothing to put into a report: "
    "install from a wheel, or build it in a clone (`make demo` does)"
)


@dataclass(frozen=True, slots=True)
class Report:
    """The file, and what is not in it."""

    content: bytes
    folded: tuple[str, ...]


@dataclass(slots=True)
class _Pack:
    """Elements as they come, as long as there is room."""

    room: int
    elements: list[str] = field(default_factory=list)
    folded: dict[str, str] = field(default_factory=dict)
    left_out: int = 0

    def add(self, key: str, value: Any, *, bundle: bool = False, always: bool = False) -> bool:
        """Add a value; False where there is no room for it."""
        text = base64.b64encode(zlib.compress(encoded(value), 9)).decode()
        name = "bundle" if bundle else "resource"
        element = (
            f'<script type="application/x-stepscope" data-{name}="{html.escape(key)}">'
            f"{text}</script>\n"
        )
        if len(element) > self.room and not always:
            self.left_out += 1
            return False
        self.room -= len(element)
        self.elements.append(element)
        return True


def write_report(recordings: Recordings, path: Path, max_size: int = MAX_SIZE) -> Report:
    """Write the report of runs to a file, whole or not at all."""
    report = make_report(recordings, max_size)
    with whole_file(path) as file:
        file.write(report.content)
    return report


def make_report(recordings: Recordings, max_size: int = MAX_SIZE, start: str = "") -> Report:
    """The report of runs; `StepscopeError` where not even the sums fit into `max_size` bytes.

    `start` is what the page shows first, as the fragment of its address says it.
    """
    shell = _shell()
    with recordings.lock:
        recordings.look()
        survey = recordings.survey
        pack = _Pack(max_size - sum(map(len, shell)) - 4_000)
        for name, parameters in _of_all():
            _add(pack, recordings, name, parameters, always=True)
        if pack.room < 0:
            raise StepscopeError(
                f"the report needs at least {size(max_size - pack.room)} for what is about all "
                f"runs; --max-size was {size(max_size)}"
            )
        shown = 0
        for runs in _together(recordings, _chosen(recordings)):
            added = _add_runs(pack, recordings, runs)
            shown += added
            if added < len(runs):
                break
        folded = _sentences(recordings, pack, shown, max_size)
        session = {
            **answer(recordings, "session", {}),
            "place": "report",
            "growing": False,
            "perfetto": False,
            "folded": folded,
            "folded_resources": pack.folded,
        }
        pack.add("session", session, always=True)
    title = html.escape(f"{session['title']} · stepscope")
    before, after = shell
    head = before.replace("<title>stepscope</title>", f"<title>{title}</title>", 1)
    if start:
        head = head.replace("<html", f'<html data-start="{html.escape(start)}"', 1)
    content = (head + "".join(pack.elements) + after).encode(errors="backslashreplace")
    assert survey.readable, "see Recordings.survey"
    return Report(content, tuple(folded))


# -- what goes in ------------------------------------------------------------------------------


def _of_all() -> Iterator[tuple[str, dict[str, str]]]:
    yield "runs", {}
    yield "overview", {}
    for by in _BY:
        yield "ops", {"by": by}
    for of in ("scope", "file"):
        for by in ("time", "bytes"):
            yield "icicle", {"of": of, "by": by}
    for by in ("name", "type"):
        yield "compare", {"by": by}
    yield "cluster", {}


def _key(name: str, parameters: Mapping[str, Any], usual_run: str) -> str:
    """As the page has it: without parameters that say what holds anyway."""
    usual = {**_DEFAULTS.get(name, {}), "run": usual_run}
    return key_of(name, {k: v for k, v in parameters.items() if str(v) != usual.get(k)})


def _add(
    pack: _Pack, recordings: Recordings, name: str, parameters: Mapping[str, Any], **how: Any
) -> bool:
    """Add a resource; one that these runs do not have is there as little as in the server."""
    given = {key: str(value) for key, value in parameters.items()}
    try:
        value = answer(recordings, name, given)
    except (CannotAnswerError, WrongParameterError):
        return True
    return pack.add(_key(name, parameters, str(typical(recordings))), value, **how)


def _chosen(recordings: Recordings) -> list[int | str]:
    """The runs in the order in which they are worth a look."""
    survey = recordings.survey
    session = answer(recordings, "session", {})
    rows = survey.rows
    failed = [row.number for row in rows if not row.ok]
    peak = max(rows, key=lambda row: row.peak_bytes)
    longest = sorted(rows, key=lambda row: -row.ns)
    order: list[int | str] = [
        session["timeline_run"], typical(recordings), *failed[:3], peak.number, rows[-1].number,
        *(row.number for row in longest[:2]),
    ]  # fmt: skip
    if len(rows) <= _FEW_RUNS:
        order += [row.number for row in rows]
    chosen = list(dict.fromkeys(order))
    if len(rows) > 1 and sum(row.ops for row in rows) <= _ALL_TOGETHER:
        chosen.insert(1, "all")
    return chosen


def _together(recordings: Recordings, runs: list[int | str]) -> Iterator[list[int | str]]:
    """The runs in groups, each of which is small enough to be held at once, or of one run."""
    group: list[int | str] = []
    held = 0
    for run in runs:
        row = recordings.survey.row(run) if isinstance(run, int) else None
        ops = row.ops if row is not None else 0
        if group and held + ops > _ALL_TOGETHER:
            yield group
            group, held = [], 0
        group.append(run)
        held += ops
    if group:
        yield group


def _add_runs(pack: _Pack, recordings: Recordings, runs: list[int | str]) -> int:
    """Add runs, in ever more detail; of how many there was room for the least of it."""
    usual = str(typical(recordings))
    added: list[tuple[int | str, LookedAt]] = []
    for run in runs:
        here = looked_at(recordings, Asked({"run": str(run)}))
        first = _key("tile", {"run": run, "level": 0, "index": 0}, usual)
        if not (
            _add(pack, recordings, "timeline", {"run": run}) and pack.add(first, _tile(here, 0, 0))
        ):
            break
        added.append((run, here))
        if len(here.runs) == 1:
            _add(pack, recordings, "index", {"run": run})
            _add(pack, recordings, "graph", {"run": run})
            _add_memory(pack, recordings, run)
    single = [(run, here) for run, here in added if len(here.runs) == 1]
    _add_panels(pack, single, usual)
    _add_bundle(pack, "layer", [_layers(recordings, *one, usual) for one in single])
    _add_scopes(pack, recordings, single, usual)
    _add_tables(pack, recordings, single)
    for run, here in added:
        if not _add_tiles(pack, here, run, usual):
            break
    return len(added)


def _add_bundle(pack: _Pack, name: str, parts: list[dict[str, Any]]) -> bool:
    """Add small values of several runs: all together, or of the first runs as far as there is room.

    What is alike in them comes one after the other, so that together it takes little room.
    """
    mixed = dict(
        item for same in zip_longest(*(part.items() for part in parts)) for item in same if item
    )
    if not mixed or pack.add(name, mixed, bundle=True):
        return True
    if len(parts) > 1:
        for part in parts:
            if not pack.add(name, part, bundle=True):
                break
    return False


def _tile(here: LookedAt, level: int, index: int) -> dict[str, Any]:
    return shaped(here.timeline().tile(level, index, _LEAF), here)


def _add_tiles(pack: _Pack, here: LookedAt, run: int | str, usual: str) -> bool:
    """Add the tiles below those that are not whole, level by level."""
    timeline = here.timeline()
    waiting = [] if timeline.tile(0, 0, _LEAF).whole else [(1, 0), (1, 1)]
    while waiting:
        level, index = waiting.pop(0)
        if level > timeline.max_level:
            break
        tile = timeline.tile(level, index, _LEAF)
        key = _key("tile", {"run": run, "level": level, "index": index}, usual)
        if not pack.add(key, shaped(tile, here)):
            pack.folded["tile"] = (
                "what is shorter than a pixel here was folded to keep the report small; "
                "`stepscope view` shows it"
            )
            return False
        if not tile.whole:
            waiting += [(level + 1, 2 * index), (level + 1, 2 * index + 1)]
    return True


def _add_memory(pack: _Pack, recordings: Recordings, run: int | str) -> None:
    given = {"run": str(run)}
    try:
        devices = answer(recordings, "memory", given)["devices"]
    except (CannotAnswerError, WrongParameterError):
        return
    # Each holds all tensors: of the run that is looked at first in every way, of others in one.
    for by in _MEMORY_BY if run == typical(recordings) else _MEMORY_BY[:1]:
        for device in ["", *devices] if len(devices) > 1 else [""]:
            _add(pack, recordings, "memory", {"run": run, "by": by, "device": device})


def _add_panels(pack: _Pack, runs: list[tuple[int | str, LookedAt]], usual: str) -> None:
    """Add what is known of each op, of many those that took the most time."""
    parts = []
    for run, here in runs:
        nodes = nodes_of(here)
        panels: dict[str, Any] = {}
        for place, name in enumerate(nodes.name[:_MOST_PANELS]):
            key = _key("op", {"run": run, "name": name}, usual)
            if key not in panels:
                panels[key] = shown_op(here, nodes.longest[place], place)
        parts.append(panels)
    added = _add_bundle(pack, "op", parts)
    most = max((len(nodes_of(here).name) for _, here in runs), default=0)
    if not added or most > _MOST_PANELS:
        kept = f"the {_MOST_PANELS:,} that took the most time" if added else "few or none"
        pack.folded["op"] = (
            f"of the {number(most, 'op')} of this run the report has {kept} in detail; "
            "`stepscope view` has all"
        )


def _layers(
    recordings: Recordings, run: int | str, here: LookedAt, usual: str
) -> dict[str, dict[str, Any]]:
    """The layers, and the scopes above them, that ops of a run are in."""
    paths = dict.fromkeys(nodes_of(here).layer)
    names = dict.fromkeys(
        "/".join(parts[:depth])
        for parts in (path.split("/") for path in paths)
        for depth in range(1, len(parts) + 1)
    )
    return {
        _key("layer", {"run": run, "name": name}, usual): answer(
            recordings, "layer", {"run": str(run), "name": name}
        )
        for name in list(names)[:_MOST_SCOPES]
    }


def _add_tables(
    pack: _Pack, recordings: Recordings, runs: list[tuple[int | str, LookedAt]]
) -> None:
    """What Ops shows of one run, where that is quickly summed up."""
    few = [run for run, here in runs if len(here.run.ops) <= _LEAF]
    for name in ("ops", "icicle"):
        every = [given for resource, given in _of_all() if resource == name]
        # These are of all runs unless one is named: the typical one is, too.
        parts = [
            {
                key_of(
                    name,
                    {k: v for k, v in given.items() if v != _DEFAULTS[name][k]} | {"run": run},
                ): answer(recordings, name, {**given, "run": str(run)})
                for given in every
            }
            for run in few
        ]
        _add_bundle(pack, name, parts)


def _add_scopes(
    pack: _Pack, recordings: Recordings, runs: list[tuple[int | str, LookedAt]], usual: str
) -> None:
    parts = []
    most = 0
    for run, here in runs:
        scopes = ["/", *flow_of(here).scopes()[1:]]
        most = max(most, len(scopes))
        parts.append(
            {
                _key("graph", {"run": run, "scope": scope}, usual): answer(
                    recordings, "graph", {"run": str(run), "scope": scope}
                )
                for scope in scopes[:_MOST_SCOPES]
            }
        )
    if not _add_bundle(pack, "graph", parts) or most > _MOST_SCOPES:
        pack.folded["graph"] = "this scope is not in the report; `stepscope view` shows it"


def _sentences(recordings: Recordings, pack: _Pack, shown: int, max_size: int) -> list[str]:
    """What is not in the report."""
    said = []
    runs = len(recordings.survey.rows)
    if shown < runs:
        said.append(
            f"of {number(runs, 'run')} this report shows {min(shown, runs):,} one by one, the most "
            "telling ones; sums are of all"
        )
        for name in ("timeline", "graph", "memory", "index", "op"):
            pack.folded.setdefault(
                name, "this run is not in the report one by one; `stepscope view` shows it"
            )
    said += [pack.folded[name] for name in ("tile",) if name in pack.folded]
    if pack.left_out:
        said.append(
            f"detail was left out to stay below {size(max_size)} (--max-size); totals are right"
        )
    for name, sentence in (
        ("edges", "arrows are drawn by `stepscope view`"),
        ("range", "sums of a stretch are of what is drawn"),
    ):
        pack.folded.setdefault(name, sentence)
    return said


# -- the file ----------------------------------------------------------------------------------


def _shell() -> tuple[str, str]:
    """The page with its script and style sheet in it: what comes before the data, and after."""
    script = page_file("stepscope.js").decode()
    if not script:
        raise StepscopeError(_NO_PAGE)
    # Inside of a script element this would be its end; in a string of the script it is the same.
    script = script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    style = page_file("stepscope.css").decode().replace("</style", "<\\/style")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    told = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
    shown = page("report").decode()
    for wanted, inlined in (
        ("<head>", f"<head>{told}"),
        ('<link rel="stylesheet" href="stepscope.css">', f"<style>{style}</style>"),
        ('<script type="module" src="stepscope.js"></script>', ""),
    ):
        before, found, after = shown.partition(wanted)
        if not found:
            raise StepscopeError(f"the viewer's page was built without {wanted}")
        shown = before + inlined + after
    before, found, after = shown.rpartition("</body>")
    return before, f'<script type="module">{script}</script>\n{found}{after}'
