"""Move of a job to another cluster, and with it to another store: savepoint, mark, copy, run."""
