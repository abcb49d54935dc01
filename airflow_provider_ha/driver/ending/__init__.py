"""End of a driver: stop and drain of its queries, result of the run, failure record and exit of the process."""
