"""A script that fails before its first query."""

raise RuntimeError("no such table")
