package org.apache.hadoop.fs;

import java.io.IOException;
import java.io.InputStream;

public abstract class FSInputStream extends InputStream {
    public abstract void seek(long position) throws IOException;

    public abstract long getPos() throws IOException;

    public abstract boolean seekToNewSource(long position) throws IOException;
}
