package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;

public class Path {
    public Path(String path) {
        throw new UnsupportedOperationException();
    }

    public Path(URI uri) {
        throw new UnsupportedOperationException();
    }

    public Path(Path parent, String child) {
        throw new UnsupportedOperationException();
    }

    public Path(String scheme, String authority, String path) {
        throw new UnsupportedOperationException();
    }

    public FileSystem getFileSystem(Configuration conf) throws IOException {
        throw new UnsupportedOperationException();
    }

    public URI toUri() {
        throw new UnsupportedOperationException();
    }

    public String getName() {
        throw new UnsupportedOperationException();
    }

    public Path getParent() {
        throw new UnsupportedOperationException();
    }

    @Override
    public String toString() {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean equals(Object other) {
        throw new UnsupportedOperationException();
    }

    @Override
    public int hashCode() {
        throw new UnsupportedOperationException();
    }
}
