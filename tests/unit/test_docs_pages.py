"""The pages of the documentation show what the commands print now."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("make_pages", ROOT / "docs" / "make_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_page_is_stale(pages):
    assert not (found := pages.stale()), "`make docs` writes them again:\n" + "\n".join(found)


def test_each_question_shows_what_a_command_prints(pages):
    questions = [page for page in pages.PAGES if page.parent.name == "questions"]
    assert len(questions) == 10
    for page in questions:
        blocks = pages._BLOCK.findall(page.read_text(encoding="utf-8"))
        assert blocks, page
        assert all(len(block.splitlines()) > 3 for block in blocks), page


def test_a_changed_output_is_seen(pages):
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert pages.written(page) == page
    assert pages.written(page.replace("RESOURCE_EXHAUSTED", "OK")) == page


@pytest.mark.parametrize(
    "name", ["steps", "layers", "top", "oom", "parallelism", "diff", "network"]
)
def test_pictures_show_the_commands(pages, name):
    picture = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
    words = set(re.findall(r"[\w/]{4,}", pages.output_of(pages.PICTURES[name], 100)))
    missing = {word for word in words if word not in picture}
    assert not missing, "`make docs` takes the pictures again"


def test_links_lead_somewhere():
    """In a clone; `test_docs_site` has those of the site, with their anchors."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    assert len(pages) > 40
    for page in pages:
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            assert "://" in link or (page.parent / link).exists(), f"{page}: {link}"


def test_the_figures_of_the_readme_are_those_measured_last(pages):
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert pages.how_fast() in page
    assert pages.written(page.replace("| a chain of 1,000", "| a train of 1,000")) == page


def test_the_walk_through_the_code_names_files_that_there_are():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| (\d+)\. `([\w/.]+)` \|", page, re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert 20 <= len(steps) <= 25
    for _, file in steps:
        assert (ROOT / "src" / "stepscope" / file).is_file(), file
