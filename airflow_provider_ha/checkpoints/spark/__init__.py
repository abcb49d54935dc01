"""Spark's checkpoint directories: access to the tree, format of logs and state, checksums. Makes no decisions."""
