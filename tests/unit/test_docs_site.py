"""The documentation as a site: `make docs-site` without a warning, and what stands on it."""

import logging
import os
import re
from pathlib import Path

import pytest

from stepscope.cli.arguments.command_line import COMMANDS

pytest.importorskip("mkdocs", reason="the site is built where the extra `docs` is installed")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the site; a warning, such as a link that leads nowhere, fails it."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.utils import CountHandler

    folder = tmp_path_factory.mktemp("site")
    counting = CountHandler()
    counting.setLevel(logging.WARNING)
    logger = logging.getLogger("mkdocs")
    logger.addHandler(counting)
    before = os.environ.copy()
    os.environ["NO_MKDOCS_2_WARNING"] = "1"  # of its theme, about another product
    try:
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    finally:
        logger.removeHandler(counting)
        os.environ.clear()
        os.environ.update(before)
    assert counting.get_counts() == []
    return folder


def text_of(site, page):
    return re.sub(r"<[^>]+>", "", (site / page / "index.html").read_text(encoding="utf-8"))


def test_every_page_is_on_it(site):
    sources = [p for p in (ROOT / "docs").rglob("*.md") if "recorded" not in p.parts]
    assert len(sources) > 30
    for source in sources:
        assert (site / source.relative_to(ROOT / "docs").with_suffix("") / "index.html").exists()


def test_the_first_page_is_the_readme(site):
    page = (site / "index.html").read_text(encoding="utf-8")
    assert 'src="pictures/viewer_overview.png"' in page
    assert 'href="tutorials/tf1_script/"' in page
    assert (site / "pictures" / "viewer_overview.png").exists()


def test_every_command_is_on_the_page_of_commands(site):
    text = text_of(site, "reference/command_line")
    for name in COMMANDS:
        assert f"Usage: stepscope {name} " in text, name


def test_the_reference_has_public_names_with_their_docstrings(site):
    assert "stepscope.run" in text_of(site, "reference/running")
    assert "stepscope.export.chrome" in text_of(site, "reference/export")
    assert "peak_bytes" in text_of(site, "reference/metadata")
    assert "OutOfRangeError" in text_of(site, "reference/errors")


def test_links_out_of_the_documentation_lead_to_the_repository(site):
    page = (site / "questions" / "which_op_is_slow" / "index.html").read_text(encoding="utf-8")
    assert "/blob/main/docs/questions/programs/classify.py" in page
