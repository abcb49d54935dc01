"""Savepoints: take, verify, export, import and restore them, as directories, archives or prefixes of a bucket."""
