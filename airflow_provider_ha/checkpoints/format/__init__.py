"""Format of Spark's checkpoint directories: logs, state, checksums. Reads only; makes no decisions."""
