"""A module beside the script."""

WORD = "sibling module"
