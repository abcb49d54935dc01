"""A package beside the script."""
