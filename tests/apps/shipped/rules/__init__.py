"""A package beside the script, with a data file."""
