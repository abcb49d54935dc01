package org.apache.hadoop.fs.s3a;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

public class S3AFileStatus extends FileStatus {
    public S3AFileStatus(long length, long modificationTime, Path path, long blockSize, String owner, String etag,
            String version) {
        super(length, false, 1, blockSize, modificationTime, path);
    }
}
