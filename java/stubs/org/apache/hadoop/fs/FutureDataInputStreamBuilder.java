package org.apache.hadoop.fs;

import java.io.IOException;
import java.util.concurrent.CompletableFuture;

public interface FutureDataInputStreamBuilder
        extends FSBuilder<CompletableFuture<FSDataInputStream>, FutureDataInputStreamBuilder> {
    default FutureDataInputStreamBuilder withFileStatus(FileStatus status) {
        throw new UnsupportedOperationException();
    }

    CompletableFuture<FSDataInputStream> build()
        throws IllegalArgumentException, UnsupportedOperationException, IOException;
}
