package io.github.sparkha;

import java.io.IOException;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;

/** A file on HDFS, or on another file system with atomic renames: written under a hidden name, then renamed. */
final class Renamed extends Publication {
    private final FileSystem files;
    private final FileContext context;
    private final Path hidden;
    private final Path path;
    private final boolean overwrite;
    private final FSDataOutputStream out;

    private Renamed(FileSystem files, FileContext context, Path hidden, Path path, boolean overwrite,
            FSDataOutputStream out) {
        super(out);
        this.files = files;
        this.context = context;
        this.hidden = hidden;
        this.path = path;
        this.overwrite = overwrite;
        this.out = out;
    }

    static Renamed begin(FileSystem files, Path path, boolean overwrite, Configuration conf) throws IOException {
        Path hidden = new Path(path.getParent(), "." + path.getName() + "." + UUID.randomUUID() + ".tmp");
        FileContext context = FileContext.getFileContext(path.toUri(), conf);
        return new Renamed(files, context, hidden, path, overwrite, files.create(hidden, false));
    }

    @Override
    void publish() throws IOException {
        try {
            out.close();
            // guard: rename-replaces-what-is-there
            context.rename(hidden, path, overwrite ? Options.Rename.OVERWRITE : Options.Rename.NONE);
        } catch (FileAlreadyExistsException e) {
            Counters.count(Counters.WRITE_LOST);
            remove();
            throw e;
        } catch (IOException e) {
            remove();
            throw e;
        }
    }

    @Override
    void abort() {
        try {
            out.close();
        } catch (IOException e) {
            // What is left of it is hidden, and is removed or collected.
        }
        remove();
    }

    private void remove() {
        try {
            files.delete(hidden, false);
        } catch (IOException e) {
            // Spark and every verifier ignore hidden names.
        }
    }
}
