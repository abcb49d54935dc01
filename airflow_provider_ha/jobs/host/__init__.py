"""A driver on its host: its directory, its parameters, its log, and which host and which Spark that is."""
