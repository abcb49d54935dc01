"""The links of tasks: to the job's page, to the log of its driver, to Spark's own web UI."""
