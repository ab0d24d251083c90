"""What mkdocs does besides: pages that are made from the code, and links that leave docs/.

Three pages of the site are not in docs/: the first is the README, two are CHANGELOG and
CONTRIBUTING. The reference is made: the command line from what `--help` says, the rest from the
docstrings of public names. Links are written as they work in a clone; those that lead out of
docs/ lead to the repository on the site.
"""

from __future__ import annotations

import importlib
import inspect
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from mkdocs.structure.files import File

from stepscope.cli.arguments.command_line import commands

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
TAKEN = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
"""Pages of the site that are files of the repository."""
REFERENCE = {
    "running": ("Running and recording", "stepscope"),
    "metadata": ("Runs and their columns", "stepscope.metadata"),
    "analysis": ("Analyses", "stepscope.analysis"),
    "export": ("Files for other tools", "stepscope.export"),
    "errors": ("Errors", "stepscope.errors"),
}
"""By page, its title and the package whose public names it has."""
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
_WIDTH = 88


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    pages = {name: (ROOT / file).read_text(encoding="utf-8") for name, file in TAKEN.items()}
    pages["reference/command_line.md"] = command_line()
    seen: set[str] = set()
    # What stands on a page of its own is not on the first page, too.
    for name, (title, package) in reversed(REFERENCE.items()):
        pages[f"reference/{name}.md"] = reference(title, package, seen)
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as they are in a clone, to where they lead on the site."""
    here = page.file.src_uri
    folder = "" if here in TAKEN else posixpath.join("docs", posixpath.dirname(here))
    taken = {source: name for name, source in TAKEN.items()}

    def link(found: re.Match[str]) -> str:
        address, anchor = found[1], found[2] or ""
        if "://" in address or address.startswith("mailto:"):
            return found[0]
        target = posixpath.normpath(posixpath.join(folder, address))
        if target.startswith("docs/") or target in taken:
            inside = taken.get(target) or target.removeprefix("docs/")
            there = files.get_file_from_path(inside)
            if there is not None and not there.inclusion.is_excluded():
                return posixpath.relpath(inside, posixpath.dirname(here) or ".") + anchor
        return f"{config.repo_url}/blob/main/{target}{anchor}"

    return _LINK.sub(link, markdown)


def command_line() -> str:
    """The page of all commands, from their own help."""
    context = click.Context(commands, info_name="stepscope", terminal_width=_WIDTH)
    parts = ["# The command line", _block(commands.get_help(context))]
    for name in commands.list_commands(context):
        command: Any = commands.get_command(context, name)
        inner = click.Context(command, info_name=name, parent=context, terminal_width=_WIDTH)
        parts += [f"## stepscope {name}", _block(command.get_help(inner))]
    return "\n\n".join(parts) + "\n"


def reference(title: str, package: str, seen: set[str]) -> str:
    """A page of a package's public names, functions first; `seen` are names on other pages."""
    module = importlib.import_module(package)
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    found = [(name, getattr(module, name)) for name in names]
    parts = [f"# {title}", _first_paragraph(module)]
    for name, value in sorted(found, key=lambda pair: (inspect.isclass(pair[1]), pair[0])):
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        place = f"{value.__module__}.{value.__qualname__}"
        if place in seen or not value.__module__.startswith("stepscope"):
            continue
        seen.add(place)
        options = [f"heading: {package}.{name}"]
        if name == "Session":
            options.append("inherited_members: true")
        parts.append("\n      ".join([f"::: {place}\n    options:", *options]))
    return "\n\n".join(parts) + "\n"


def _first_paragraph(module: Any) -> str:
    return str(inspect.getdoc(module) or "").split("\n\n")[0]


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"
