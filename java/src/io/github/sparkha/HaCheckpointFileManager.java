package io.github.sparkha;

import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * How Spark writes logs and state: exclusively where it asks for that, on every file system, and while the gate is open.
 *
 * <p>Spark makes one per directory, also for the log of a file sink, whose file system is the user's choice.
 */
public final class HaCheckpointFileManager implements CheckpointFileManager {
    private final Configuration conf;
    private final FileSystem files;
    private final HaFileSystem layered;
    private final Path root;

    /** Called by Spark. */
    public HaCheckpointFileManager(Path path, Configuration conf) throws IOException {
        this.conf = conf;
        this.files = path.getFileSystem(conf);
        this.layered = files instanceof HaFileSystem ha ? ha : null;
        this.root = files.makeQualified(path);
    }

    @Override
    public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
        try {
            return begin(files.makeQualified(path), overwriteIfPossible);
        } catch (IOException e) {
            throw Errors.unchecked(e);
        }
    }

    private CancellableFSDataOutputStream begin(Path path, boolean overwrite) throws IOException {
        // guard: gate-not-asked-first
        checkGate(path);
        refuseBatch(path, overwrite);
        if (layered != null && !overwrite) {
            layered.refuseNamed(path);
        }
        Counters.count(Counters.WRITE);
        return new Stream(publication(path, overwrite), path, overwrite);
    }

    private Publication publication(Path path, boolean overwrite) throws IOException {
        FileSystem inner = layered == null ? files : layered.inner();
        Path own = layered == null ? path : layered.own(path);
        Publication made = switch (inner.getUri().getScheme()) {
            case "s3a" -> ConditionalPut.begin(inner, own, overwrite, conf);
            case "file" -> Linked.begin(own, overwrite);
            default -> Renamed.begin(inner, own, overwrite, conf);
        };
        return layered == null ? made : layered.copied(made, path);
    }

    private static void checkGate(Path path) throws IOException {
        if (Layout.isGated(path)) {
            Gate.check(path);
        }
    }

    /** N and N.compact are one batch: two writers with other compaction intervals would exclude each other in nothing. */
    private void refuseBatch(Path path, boolean overwrite) throws IOException {
        String sibling = Layout.isSinkLog(path) && !overwrite ? Layout.sibling(path.getName()) : null;
        if (sibling != null && exists(new Path(path.getParent(), sibling))) {
            Counters.count(Counters.WRITE_LOST);
            throw new FileAlreadyExistsException(path + " is the batch of " + sibling + ", which exists");
        }
    }

    /** What Spark writes into. */
    private final class Stream extends CancellableFSDataOutputStream {
        private final Publication publication;
        private final Path path;
        private final boolean overwrite;
        private boolean ended;
        private IOException failure;

        Stream(Publication publication, Path path, boolean overwrite) {
            super(publication);
            this.publication = publication;
            this.path = path;
            this.overwrite = overwrite;
        }

        @Override
        public synchronized void close() throws IOException {
            if (failure != null) {
                throw new IOException(path + " was not written", failure);
            }
            if (ended) {
                return;
            }
            ended = true;
            try {
                end();
            } catch (IOException e) {
                failure = e;
                throw e;
            }
        }

        private void end() throws IOException {
            try {
                // guard: gate-not-asked-again
                checkGate(path);
            } catch (IOException e) {
                publication.abort();
                throw e;
            }
            if (Layout.isSinkLog(path)) {
                SinkLogs.writes(path);
            }
            publication.publishWhole();
            if (layered != null && overwrite) {
                layered.forget(path);
            }
            // Two writers under the two names of a batch: the later one sees the other, so at most one goes on.
            refuseBatch(path, overwrite);
        }

        @Override
        public synchronized void cancel() {
            if (!ended) {
                ended = true;
                publication.abort();
            }
        }
    }

    @Override
    public FSDataInputStream open(Path path) {
        try {
            return files.open(path);
        } catch (IOException e) {
            throw Errors.unchecked(e);
        }
    }

    @Override
    public FileStatus[] list(Path path, PathFilter filter) {
        try {
            FileStatus[] found = files.listStatus(path, filter);
            if (Layout.isSinkLogDirectory(path)) {
                SinkLogs.check(path, found);
            }
            return found;
        } catch (IOException e) {
            throw Errors.unchecked(e);
        }
    }

    @Override
    public void mkdirs(Path path) {
        try {
            files.mkdirs(path);
        } catch (IOException e) {
            throw Errors.unchecked(e);
        }
    }

    @Override
    public boolean exists(Path path) {
        try {
            if (layered != null) {
                return layered.contains(path);
            }
            files.getFileStatus(path);
            return true;
        } catch (FileNotFoundException e) {
            return false;
        } catch (IOException e) {
            throw Errors.unchecked(e);
        }
    }

    @Override
    public void delete(Path path) {
        try {
            files.delete(path, true);
        } catch (FileNotFoundException e) {
            // It is gone, which is what was asked for.
        } catch (IOException e) {
            throw Errors.unchecked(e);
        }
    }

    @Override
    public boolean isLocal() {
        return (layered == null ? files : layered.inner()).getUri().getScheme().equals("file");
    }

    @Override
    public Path createCheckpointDirectory() {
        mkdirs(root);
        return root;
    }
}
