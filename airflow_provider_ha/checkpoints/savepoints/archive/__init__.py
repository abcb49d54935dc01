"""Savepoint archives: export, unpacking, and import into the job."""
