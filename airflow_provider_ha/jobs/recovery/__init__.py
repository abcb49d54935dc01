"""Recovery of a run after a loss: policy, transactions, and reports."""
