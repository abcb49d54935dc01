package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;

public class FileContext {
    public static FileContext getFileContext(URI uri, Configuration conf) throws IOException {
        throw new UnsupportedOperationException();
    }

    public void rename(Path source, Path target, Options.Rename... options) throws IOException {
        throw new UnsupportedOperationException();
    }
}
