"""A name of a directory that a user may have, with every sign that a URI, a pattern or a shell reads in its own way."""

ODD = "w\u00f6rk root #1%20+?;&=[x]{y}*'\"$"
SPARED = "w\u00f6rk root #1%20+?;&="
"""The same without what Spark takes for a pattern in the name of an input."""
