"""Spark checkpoint directories: read, verify, fork, pin, savepoint, restore. Pure Python.

Storage that does not answer is a ``StorageUnavailableError`` everywhere: it gives no information about a checkpoint
(contract 6). Functions name this error only where its outcome differs.
"""
