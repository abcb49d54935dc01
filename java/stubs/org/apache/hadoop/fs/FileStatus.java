package org.apache.hadoop.fs;

public class FileStatus {
    public FileStatus(long length, boolean directory, int replication, long blockSize, long modified, Path path) {
        throw new UnsupportedOperationException();
    }

    public Path getPath() {
        throw new UnsupportedOperationException();
    }

    public void setPath(Path path) {
        throw new UnsupportedOperationException();
    }

    public long getLen() {
        throw new UnsupportedOperationException();
    }

    public long getModificationTime() {
        throw new UnsupportedOperationException();
    }
}
