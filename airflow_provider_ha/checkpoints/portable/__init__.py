"""Savepoints that travel: taken from any checkpoint directory, checked, packed into one archive, unpacked, restored."""
