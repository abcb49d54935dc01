"""A module beside the script, which imports the package beside it."""

from __future__ import annotations

from rules import rates


WORD = "module beside the script"


def found(line: str) -> tuple[str, str, str]:
    """Return what the package finds."""
    return rates.found(line)
