"""The component in the JVM of Spark: where its jar is, how it is set up, and its gate.

Nothing here is needed by jobs on local and mounted paths.
"""
