"""Examples below the help of a command; a test checks each of them against the options that exist."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """Return the end of a help text with one command in each line."""
    return "\n\n".join(("Examples:", *lines))  # lines of one paragraph would be joined
