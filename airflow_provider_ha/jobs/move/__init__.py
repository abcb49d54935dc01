"""Move of a job to another cluster and its store: savepoint, mark, copy, run."""
