"""Queries of the script: patched calls, checks, start, registry, stall and stop."""
