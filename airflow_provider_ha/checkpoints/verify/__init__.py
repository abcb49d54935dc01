"""Whether Spark can start from a checkpoint directory as it stands, and to which batches it could be restored."""
