package org.apache.hadoop.fs;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;

public class FSDataInputStream extends DataInputStream {
    public FSDataInputStream(InputStream in) {
        super(in);
    }

    public void seek(long position) throws IOException {
        throw new UnsupportedOperationException();
    }

    public long getPos() throws IOException {
        throw new UnsupportedOperationException();
    }

    public boolean seekToNewSource(long position) throws IOException {
        throw new UnsupportedOperationException();
    }
}
