"""How Spark writes a checkpoint directory: its logs, its state, its checksums. Reads; decides nothing."""
