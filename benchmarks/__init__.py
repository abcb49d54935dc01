"""Measurements: each script prints ratios against a baseline of the same run."""
