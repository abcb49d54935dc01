"""Bytes: local file system and S3, content-addressed blobs, conditional writes."""
