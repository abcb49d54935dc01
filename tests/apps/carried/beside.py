"""A module beside the script."""

WORD = "module beside the script"
