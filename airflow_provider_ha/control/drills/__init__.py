"""Restore drills: a rehearsal of a disaster, timed and judged."""
