"""Savepoints of checkpoints on S3: manifests over one pool of server-side object copies."""
