"""Pictures of the docs: tests take them, and find one that shows another page than there is now.

Beside each picture lies what its page showed when it was taken: ``tests/data/pictures``. Pixels differ with the fonts
of a machine, headings, columns and buttons do not.
"""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Page


REPOSITORY = Path(__file__).parents[2]
IMAGES = REPOSITORY / "docs" / "images"
SHOWN = REPOSITORY / "tests" / "data" / "pictures"
MOST_BYTES = 150_000
_PARTS = "h1, h2, h3, legend, th[scope=col], .button, summary, figcaption"
_TEXTS = """parts => Array.from(document.querySelectorAll(parts))
  .filter(each => each.checkVisibility())
  .map(each => each.textContent.trim().replace(/\\s+/g, " "))"""


def check_picture(page: Page, name: str) -> None:
    """Compare a page with its picture in the docs; with ``PICTURES=write`` take the picture first.

    :param name: Of the picture, without its ending.
    """
    picture, text = IMAGES / f"{name}.png", SHOWN / f"{name}.txt"
    taken, shown = page.screenshot(), "".join(f"{each}\n" for each in page.evaluate(_TEXTS, _PARTS))
    if os.environ.get("PICTURES") == "write":
        picture.write_bytes(taken)
        text.write_text(shown)
    assert text.read_text() == shown, "take the pictures again, see CONTRIBUTING.md"
    assert picture.read_bytes()[16:24] == taken[16:24], "width and height: take the pictures again, see CONTRIBUTING.md"
    assert picture.stat().st_size < MOST_BYTES
