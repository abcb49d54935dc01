"""Savepoints: take, verify, export, import and restore them, as directories, archives or in a pool."""
