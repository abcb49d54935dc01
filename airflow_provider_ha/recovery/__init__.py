"""What a loss means for its run, and the transactions that act on it: shared by supervisors and the control plane."""
