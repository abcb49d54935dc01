package org.apache.hadoop.fs;

public abstract class LocalFileSystem extends FileSystem {
    public FileSystem getRaw() {
        throw new UnsupportedOperationException();
    }
}
