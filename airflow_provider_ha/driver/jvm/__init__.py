"""The component in the JVM of Spark: the location of its jar, its setup, and its gate.

Jobs on local and mounted paths do not need it.
"""
