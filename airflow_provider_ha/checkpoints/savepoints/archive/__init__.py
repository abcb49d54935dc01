"""A savepoint as one file: written, unpacked again, and imported by its job."""
