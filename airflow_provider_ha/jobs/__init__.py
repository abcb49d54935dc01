"""Job graphs, runs and their results, operations: what a job is and what was asked of it."""
