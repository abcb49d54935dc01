"""Savepoints of checkpoints on S3: manifests over one pool of objects that the server copied."""
