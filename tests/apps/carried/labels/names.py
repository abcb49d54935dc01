"""A module of a package."""

LABEL = "package beside the script"
