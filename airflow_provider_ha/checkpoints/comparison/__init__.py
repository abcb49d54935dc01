"""What differs between two checkpoints of a query: read, compared, never changed."""
