"""A module in the package beside the script."""

NAME_OF_SIBLING_PACKAGE = "sibling package"
