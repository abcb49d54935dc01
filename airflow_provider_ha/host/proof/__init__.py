"""Child process that proves a checkpoint: Spark loads a batch from a copy, and starts on it."""
