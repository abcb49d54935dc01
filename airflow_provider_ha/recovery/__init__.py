"""The consequences of a loss for its run, and the transactions for them: shared by supervisors and control plane."""
