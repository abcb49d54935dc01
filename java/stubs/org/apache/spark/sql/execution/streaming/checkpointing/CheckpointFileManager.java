package org.apache.spark.sql.execution.streaming.checkpointing;

import java.io.OutputStream;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

public interface CheckpointFileManager {
    CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible);

    FSDataInputStream open(Path path);

    FileStatus[] list(Path path, PathFilter filter);

    default FileStatus[] list(Path path) {
        throw new UnsupportedOperationException();
    }

    void mkdirs(Path path);

    boolean exists(Path path);

    void delete(Path path);

    boolean isLocal();

    Path createCheckpointDirectory();

    default void close() {
        throw new UnsupportedOperationException();
    }

    abstract class CancellableFSDataOutputStream extends FSDataOutputStream {
        public CancellableFSDataOutputStream(OutputStream underlyingStream) {
            super(underlyingStream);
        }

        public abstract void cancel();
    }
}
