"""Job graphs, runs and their results, operations: what a job is and the requests to it."""
