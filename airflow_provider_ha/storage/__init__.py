"""Storage of bytes: local file system, S3 and HDFS, with conditional writes and content-addressed blobs."""
