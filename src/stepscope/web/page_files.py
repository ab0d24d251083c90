"""The page: an HTML file, a script and a style sheet, which the build of `viewer/` leaves beside
this module, in `page/`.

Without them, as in a checkout that was never built, there is a page that says so and lists what it
would have drawn.
"""

from __future__ import annotations

import html
from functools import cache
from importlib.resources import files
from typing import Final

__all__ = ["CONTENT_TYPES", "is_built", "page", "page_file"]

CONTENT_TYPES: Final = {
    "index.html": "text/html; charset=utf-8",
    "stepscope.js": "text/javascript; charset=utf-8",
    "stepscope.css": "text/css; charset=utf-8",
}
_HEAD: Final = b"<head>"


def is_built() -> bool:
    """Whether the page is there."""
    return files("stepscope.web").joinpath("page", "index.html").is_file()


@cache
def page_file(name: str) -> bytes:
    """One of `CONTENT_TYPES` as it was built; empty, or the page that says so, where it was not."""
    found = files("stepscope.web").joinpath("page", name)
    if found.is_file():
        return found.read_bytes()
    return _unbuilt().encode() if name == "index.html" else b""


def page(place: str) -> bytes:
    """The HTML file, told where it is shown: "view", "report" or "tensorboard"."""
    said = f'<meta name="stepscope-place" content="{html.escape(place)}">'.encode()
    return page_file("index.html").replace(_HEAD, _HEAD + said, 1)


def _unbuilt() -> str:
    from stepscope.web.resources import RESOURCES

    listed = "\n".join(
        f'<li><a href="api/{name}?format=json">{name}</a></li>' for name in RESOURCES
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>stepscope</title>
<link rel="stylesheet" href="stepscope.css">
<script type="module" src="stepscope.js"></script></head>
<body>
<h1>stepscope</h1>
<p>The page was not built with this installation: <code>make page</code> in a clone builds it.
What it draws is here as JSON:</p>
<ul>
{listed}
</ul>
</body>
</html>
"""
