"""The report: one file that holds what the server would have said."""

import base64
import re
import zlib
from html.parser import HTMLParser

import pytest

from hostile_names import NAMES, hostile_directory
from kinds_of_input import KINDS, path_of, two_sets
from stepscope.analysis import diff
from stepscope.cli.arguments.command_line import run_command_line
from stepscope.metadata import iter_runs
from stepscope.web import report as reports
from stepscope.web.frames import decoded
from stepscope.web.page_files import is_built
from stepscope.web.recordings import Recordings
from stepscope.web.report import make_report
from stepscope.web.run_sources import FilesSource


class Elements(HTMLParser):
    """Every element of a page, with the text in scripts."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])

    def handle_data(self, data):
        if self.found:
            self.found[-1][2] += data


@pytest.fixture(autouse=True)
def page(monkeypatch):
    """A page to put data into, where none was built."""
    if not is_built():
        built = {
            "index.html": b"<html><head><title>stepscope</title>"
            b'<link rel="stylesheet" href="stepscope.css"></head><body>'
            b'<script type="module" src="stepscope.js"></script></body></html>',
            "stepscope.js": b"const end = '</script><!--';",
            "stepscope.css": b"p{}",
        }
        monkeypatch.setattr(reports, "page_file", built.__getitem__)
        monkeypatch.setattr(
            reports, "page", lambda place: built["index.html"].replace(b"<head>", b"<head>")
        )


def report_of(*paths, **options):
    return make_report(Recordings(FilesSource(paths), follow=False), **options)


def resources(content):
    """What a report holds, by key: as the page reads it."""
    found = {}
    for tag, attributes, text in Elements(content.decode()).found:
        if tag != "script" or attributes.get("type") != "application/x-stepscope":
            continue
        value = decoded(zlib.decompress(base64.b64decode(text.strip())))
        if "data-bundle" in attributes:
            found |= value
        else:
            assert attributes["data-resource"] not in found
            found[attributes["data-resource"]] = value
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_holds_what_the_server_says(kind, tmp_path, view):
    path = path_of(kind, tmp_path)
    found = resources(report_of(path).content)
    client = view(path)
    session = client.value("session")
    assert found["session"]["place"] == "report"
    assert found["session"]["pages"] == session["pages"]
    assert found["overview"]["verdict"] == client.value("overview")["verdict"]
    for key in ("runs", "ops", "ops?by=name", "icicle", "timeline", "index", "graph"):
        assert found[key].keys() == client.value(key).keys()
    assert found["ops?by=name"]["rows"]["key"] == client.value("ops?by=name")["rows"]["key"]
    tile = found["tile?index=0&level=0"]
    assert tile["whole"]
    assert len(tile["boxes"]["row"]) == found["timeline"]["ops"]
    names = set(found["index"]["name"])
    assert len([key for key in found if key.startswith("op?name=")]) >= len(names)
    assert ("memory" in found) == (session["pages"]["memory"] is None) or kind == "failed_run"
    assert ("cluster" in found) == (session["pages"]["cluster"] is None)


def test_a_report_asks_nobody_for_anything(tmp_path):
    content = report_of(path_of("embedded_training", tmp_path)).content.decode()
    for tag, attributes, _ in Elements(content).found:
        for name in ("src", "href", "action", "data", "poster", "style", "onload"):
            # An icon that is no data keeps a browser from asking for one.
            assert attributes.get(name, "data:,") == "data:,", (tag, attributes)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', content)
    assert policy.startswith("default-src &#x27;none&#x27;; script-src &#x27;sha256-")
    assert "connect" not in policy


def test_what_ops_shows_of_one_run_is_in_a_report(tmp_path):
    path = path_of("embedded_training", tmp_path)
    found = resources(report_of(path).content)
    number = found["session"]["typical"]["run"]
    (run,) = (one for place, one in enumerate(iter_runs(path)) if place == number)
    for key in (f"ops?run={number}", f"ops?by=name&run={number}"):
        assert found[key]["calls"] == len(run.metadata.ops)
    assert found[f"icicle?run={number}"]["unit"] == "ns"


def test_above_the_size_detail_is_folded_and_totals_stay(tmp_path):
    import numpy as np

    from stepscope.metadata import OpColumns, Recording, RunMetadata

    count = 45_000
    start = 10**18 + np.arange(count, dtype=np.int64) * 1000
    ns = np.random.default_rng(3).integers(1, 900, count)
    ops = OpColumns.build(
        name=[f"scope_{i % 50}/op_{i % 5000}" for i in range(count)],
        op=[f"Type{i % 7}" for i in range(count)], device=["/device:CPU:0"] * count,
        thread=np.arange(count) % 4 + 1, scheduled_ns=start, start_ns=start, end_ns=start + ns,
    )  # fmt: skip
    run = RunMetadata()
    run.record(Recording(engine="embedded", ops=lambda: ops))
    run.save(tmp_path / "run_metadata.pb")
    shell = len(b"".join(part.encode() for part in reports._shell()))
    small = report_of(tmp_path, max_size=shell + 400_000)
    large = report_of(tmp_path)
    assert len(small.content) <= shell + 400_000 < len(large.content)
    assert any("--max-size" in sentence for sentence in small.folded)
    folded, whole = resources(small.content), resources(large.content)
    assert folded["session"]["folded"] == list(small.folded)
    for key in ("ops", "overview", "icicle"):
        assert str(folded[key]) == str(whole[key])
    assert folded["ops"]["self_ns"] == int(ns.sum())
    tiles = [value for key, value in whole.items() if key.startswith("tile?")]
    leaves = {row for tile in tiles if tile["whole"] for row in tile["boxes"]["row"].tolist()}
    assert leaves == set(range(count))
    with pytest.raises(reports.StepscopeError, match="needs at least"):
        report_of(tmp_path, max_size=shell + 5_000)


def test_the_command(tmp_path, capsys):
    target = tmp_path / "out.html"
    path = path_of("tensorflows_own", tmp_path)
    assert run_command_line(["report", str(path), "-o", str(target)]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {target} (")
    assert b"data-resource" in target.read_bytes()
    assert run_command_line(["report", str(path), "--max-size", "many"]) == 2
    assert "'many' is no size; 20MB is one" in capsys.readouterr().err
    assert run_command_line(["report", str(path), "--max-size", "1KB"]) == 2


def test_hostile_names_change_nothing_but_their_own_text(tmp_path, view):
    place = hostile_directory(tmp_path)
    client = view(place)
    for key in (
        "session", "runs", "overview", "ops?by=name", "icicle", "timeline", "graph",
        "tile?level=0&index=0", "index", "op?row=0", "op?row=5", "edges?row=4",
    ):  # fmt: skip
        client.value(key)
    assert max(map(len, client.value("tile?level=0&index=0")["names"])) < 300
    content = report_of(place).content.decode()
    # Names are nowhere in the page's text but in the title, where they are escaped.
    title = content.partition("<title>")[2].partition("</title>")[0]
    assert "<" not in title
    elements = Elements(content.replace(title, "")).found
    known = report_of(path_of("tensorflows_own", tmp_path)).content.decode()
    assert {tag for tag, _, _ in elements} <= {tag for tag, _, _ in Elements(known).found}
    scripts = [one for one in elements if one[0] == "script"]
    assert [one[1].get("type") for one in scripts if "data-" not in str(one[1])] == ["module"]
    found = resources(content.encode())
    assert NAMES[0] in found["ops?by=name"]["rows"]["key"]
    assert "$" in found["index"]["name"]


def test_two_sets_are_compared_by_op_and_by_type(tmp_path):
    recorded = two_sets(tmp_path)
    held = resources(report_of(recorded / "base", recorded / "new").content)
    by_type = held["compare?by=type"]
    assert held["compare"]["by"] == "name"
    assert by_type["by"] == "type"
    found = diff(list(iter_runs(recorded / "base")), list(iter_runs(recorded / "new")), by="op")
    assert sorted(by_type["rows"]["name"]) == sorted(row.name for row in found.rows)
