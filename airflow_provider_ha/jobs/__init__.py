"""One folder per noun of a job: its records and the actions on it."""
