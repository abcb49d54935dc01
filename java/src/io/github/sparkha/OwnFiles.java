package io.github.sparkha;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** The files that a query's directory has itself, found with as few requests as the store allows. */
final class OwnFiles {
    private static final FileStatus[] NONE = new FileStatus[0];
    /** Bytes up to which a table is sent as a stream: S3A writes a stream to the local disk first, and a file not. */
    private static final long SMALL = 8 << 20;

    private final FileSystem files;
    private final Configuration conf;
    private final boolean hasDirectories;
    /** Directories that have had a file: one request lists them, and of empty ones S3A needs three. */
    private final Set<Path> filled = ConcurrentHashMap.newKeySet();
    /**
     * Names in the directory of a log, as of its last listing. Only this driver writes there, and an entry that the base
     * names is created again only by Python, before Spark lists the log at the start of a query.
     */
    private final Map<Path, Set<String>> logs = new ConcurrentHashMap<>();

    OwnFiles(FileSystem files, Configuration conf) {
        this.files = files;
        this.conf = conf;
        this.hasDirectories = !files.getUri().getScheme().equals("s3a");
    }

    /** Whether files need a directory: a store has none. */
    boolean needDirectories() {
        return hasDirectories;
    }

    /** Whether there is a file: one request, while a status of nothing is two on S3. */
    boolean contain(Path own) throws IOException {
        Counters.count(Counters.STATUS);
        return files.isFile(own);
    }

    /** Whether there is a file in place of one that the base names; of a log, its last listing tells. */
    boolean replace(Path own) throws IOException {
        Set<String> names = logs.get(own.getParent());
        return names == null ? contain(own) : names.contains(own.getName());
    }

    /**
     * Lists a directory.
     *
     * @param inBase whether the base has it: then it need not exist
     * @param isLog whether it is the directory of a log
     */
    FileStatus[] list(Path own, boolean inBase, boolean isLog) throws IOException {
        FileStatus[] found = listed(own, inBase);
        if (isLog) {
            Set<String> names = ConcurrentHashMap.newKeySet();
            for (FileStatus status : found) {
                names.add(status.getPath().getName());
            }
            logs.put(own, names);
        }
        return found;
    }

    private FileStatus[] listed(Path own, boolean inBase) throws IOException {
        if (!hasDirectories && inBase && !filled.contains(own) && !files.isDirectory(own)) {
            return NONE;
        }
        try {
            FileStatus[] found = files.listStatus(own);
            if (found.length > 0) {
                filled.add(own);
            }
            return found;
        } catch (FileNotFoundException e) {
            if (!inBase) {
                throw e;
            }
            return NONE;
        }
    }

    /** Whether a file can be sent in one request: to S3, with a name that no process writes twice, and not large. */
    boolean canUpload(String name, Path local, boolean deleteSource) throws IOException {
        return !hasDirectories && !deleteSource && Layout.isUnique(name) && Files.size(onDisk(local)) <= SMALL;
    }

    void upload(Path local, Path own) throws IOException {
        ConditionalPut put = ConditionalPut.begin(files, own, true, conf);
        try {
            Files.copy(onDisk(local), put);
        } catch (IOException | RuntimeException e) {
            put.abort();
            throw e;
        }
        put.publishWhole();
    }

    private static java.nio.file.Path onDisk(Path local) {
        return java.nio.file.Path.of(local.toUri().getPath());
    }

    /** Forgets the listings of a path and of its directory: a name of the base may have got a file here. */
    void forget(Path own) {
        logs.remove(own);
        logs.remove(own.getParent());
    }
}
