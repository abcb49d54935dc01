"""A release: its number is in one place, and its section of the changelog is short enough to be read."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_ha import __version__


ROOT = Path(__file__).parents[2]
WORDS_IN_TWO_MINUTES = 480  # at 240 a minute


def releases() -> dict[str, str]:
    """Release -> its section, in the order of the changelog."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    found = zip(parts[1::2], parts[2::2], strict=True)
    return {head: body for head, body in found if re.match(r"\[\d", head)}


def test_the_newest_release_of_the_changelog_is_this_one() -> None:
    head = next(iter(releases()))

    assert re.fullmatch(rf"\[{re.escape(__version__)}\] - \d{{4}}-\d{{2}}-\d{{2}}", head)


def test_a_release_is_read_in_two_minutes() -> None:
    assert {
        head: len(body.split()) for head, body in releases().items() if len(body.split()) > WORDS_IN_TWO_MINUTES
    } == {}


def test_the_number_of_the_release_is_in_one_place() -> None:
    files = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "pyproject.toml", *(ROOT / "docs").rglob("*.md")]
    package = [path for path in (ROOT / "airflow_provider_ha").rglob("*.py") if path.name != "_version.py"]

    named = [
        path
        for path in (*files, *package)
        if __version__ in re.findall(r"(?<![\d.])\d+\.\d+\.\d+(?![\d.])", path.read_text(encoding="utf-8"))
    ]

    assert named == []
