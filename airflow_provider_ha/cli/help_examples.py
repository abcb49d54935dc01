"""Examples below the help of a command; a test checks them against the existing options."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """Return the end of a help text with one command in each line."""
    return "\n\n".join(("Examples:", *lines))  # lines of a paragraph would be joined
