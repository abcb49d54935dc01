"""Read and write access to the directory tree of a checkpoint: local files and objects of S3."""
