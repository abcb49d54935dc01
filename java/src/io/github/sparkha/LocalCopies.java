package io.github.sparkha;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Copies of state files on the local disk, which a task of this host reads in the place of the store.
 *
 * <p>The store stays the only truth: a copy is made after the store has accepted the file, only of names that are never
 * written twice, and any doubt about it leads to the store. No error of a copy reaches Spark.
 */
final class LocalCopies {
    private static final Set<String> SETTLED = ConcurrentHashMap.newKeySet();

    private final CopiesFolder folder;
    private final FileSystem disk;

    private LocalCopies(CopiesFolder folder, FileSystem disk) {
        this.folder = folder;
        this.disk = disk;
    }

    /** The copies of this host; null when they are off. */
    static LocalCopies of(Configuration conf) throws IOException {
        CopiesFolder folder = CopiesFolder.of(conf);
        return folder == null ? null : new LocalCopies(folder, FileSystem.getLocal(conf).getRaw());
    }

    /** Opens the primary. */
    interface Primary {
        FSDataInputStream open() throws IOException;
    }

    /** Copies the primary to the local disk. */
    interface Download {
        void run() throws IOException;
    }

    /** Whether a file may have a copy. */
    static boolean has(Path source) {
        return Layout.stateFile(source.toUri().getPath()) != null;
    }

    private Copy copy(Path source) {
        try {
            return folder.isUsable() ? new Copy(folder.place(source)) : null;
        } catch (IOException | RuntimeException e) {
            folder.failed(e);
            return null;
        }
    }

    /**
     * Opens a state file: its copy, else the primary, which becomes a copy while it is read.
     *
     * @param own the name that a query has for the file
     * @param source where the file is
     */
    FSDataInputStream open(Path own, Path source, int bufferSize, Primary primary) throws IOException {
        long began = System.nanoTime();
        Copy copy = copy(source);
        if (copy == null || isPast(own)) {
            return primary.open();
        }
        String query = queryOf(own);
        FSDataInputStream found = opened(copy, bufferSize);
        if (found != null) {
            read(query, copy, began);
            return found;
        }
        FSDataInputStream in = primary.open();
        StateReads.store(query, 1, 0, System.nanoTime() - began);
        return new FSDataInputStream(new StoreStream(in, query, CopyWriter.begin(folder, copy)));
    }

    private static String queryOf(Path own) {
        return Layout.stateFile(own.toUri().getPath()).query();
    }

    /** Whether it is no restore: Spark's maintenance reads all snapshots, to know which tables it may remove. */
    private boolean isPast(Path own) {
        try {
            return CopyRetention.isPast(new Copy(folder.place(own)));
        } catch (IOException | RuntimeException e) {
            return false;
        }
    }

    /** It is opened before it is checked: another process may remove it in between. */
    private FSDataInputStream opened(Copy copy, int bufferSize) {
        if (!copy.isNoted()) {
            Counters.count(Counters.COPY_MISSING);
            return null;
        }
        FSDataInputStream in = null;
        try {
            in = disk.open(new Path(copy.file().toUri()), bufferSize);
            if (isWhole(copy)) {
                return in;
            }
        } catch (IOException | RuntimeException e) {
            folder.failed(e);
            copy.drop();
        }
        close(in);
        return null;
    }

    private static void close(FSDataInputStream in) {
        try {
            if (in != null) {
                in.close();
            }
        } catch (IOException e) {
            Counters.count(Counters.COPY_ERROR);
        }
    }

    private static boolean isWhole(Copy copy) throws IOException {
        boolean whole = copy.isWhole();
        if (!whole) {
            Counters.count(Counters.COPY_WRONG);
            copy.drop();
        }
        return whole;
    }

    /** Puts a table where Spark wants it: from its copy, else from the store, and then it becomes a copy. */
    void copyTo(Path own, Path source, Path target, Download primary) throws IOException {
        long began = System.nanoTime();
        String query = queryOf(own);
        if (!taken(query, source, target, began)) {
            primary.run();
            long bytes = new java.io.File(target.toUri().getPath()).length();
            StateReads.store(query, 1, bytes, System.nanoTime() - began);
            keep(target, source);
        }
    }

    private boolean taken(String query, Path source, Path target, long began) {
        Copy copy = copy(source);
        if (copy == null) {
            return false;
        }
        if (!copy.isNoted()) {
            Counters.count(Counters.COPY_MISSING);
            return false;
        }
        try {
            if (!isWhole(copy)) {
                return false;
            }
            java.nio.file.Path place = java.nio.file.Path.of(target.toUri().getPath());
            Files.deleteIfExists(place);
            linkOrCopy(copy.file(), place);
            read(query, copy, began);
            return true;
        } catch (IOException | RuntimeException e) {
            folder.failed(e);
            copy.drop();
            return false;
        }
    }

    private static void read(String query, Copy copy, long began) {
        long bytes = copy.file().toFile().length();
        copy.note().toFile().setLastModified(System.currentTimeMillis()); // the copies used last stay the longest
        Counters.count(Counters.COPY_READ);
        Counters.add(Counters.COPY_READ_BYTES, bytes);
        StateReads.copy(query, bytes, System.nanoTime() - began);
    }

    /** A table never changes, so both names can be one file; not on two disks, and not on every file system. */
    private static void linkOrCopy(java.nio.file.Path from, java.nio.file.Path to) throws IOException {
        try {
            Files.createLink(to, from);
        } catch (IOException | UnsupportedOperationException e) {
            Files.copy(from, to, LinkOption.NOFOLLOW_LINKS);
        }
    }

    /** Keeps a table that is in the store as well. */
    void keep(Path local, Path source) {
        Copy copy = copy(source);
        if (copy == null) {
            return;
        }
        long began = System.nanoTime();
        java.nio.file.Path aside = copy.aside();
        try {
            java.nio.file.Path from = java.nio.file.Path.of(local.toUri().getPath());
            long length = Files.size(from);
            if (folder.admits(length, java.nio.file.Path.of(Layout.stateFile(copy.file().toString()).directory()))) {
                folder.makeAbove(copy.file());
                linkOrCopy(from, aside);
                copy.take(aside);
                CopyWriter.count(folder, length, System.nanoTime() - began);
            }
        } catch (IOException | RuntimeException e) {
            folder.failed(e);
            discard(aside);
        }
    }

    private void discard(java.nio.file.Path aside) {
        try {
            Files.deleteIfExists(aside);
        } catch (IOException e) {
            folder.failed(e);
        }
    }

    /** What Spark writes, written to the local disk as well; afterwards the older versions of its partition go. */
    Publication copied(Publication primary, Path own) {
        Copy copy = copy(own);
        return copy == null ? primary : new Copied(primary, CopyWriter.begin(folder, copy), () -> forget(copy));
    }

    private void forget(Copy copy) {
        if (copy.file().toString().endsWith(".crc")) {
            return;
        }
        try {
            CopyRetention.apply(copy);
        } catch (IOException | RuntimeException e) {
            Counters.count(Counters.COPY_ERROR); // what stays needlessly counts for the quota
        }
    }

    /**
     * Removes the copies of epochs of a query that its base does not name: of runs that are over, and of cuts that were
     * given up.
     *
     * @param own a name in the own directory of the query
     * @param base of the query
     * @param root the configured storage root; null where no base needs one
     */
    void settle(Path own, Base base, String root) {
        Path query = new Path(own.toUri().getScheme(), own.toUri().getAuthority(), queryOf(own));
        if (!folder.isUsable() || !SETTLED.add(query.toString())) {
            return;
        }
        Set<String> named = root == null ? Set.of() : base.queries(new Path(root).toUri());
        try {
            java.nio.file.Path place = folder.place(query);
            String above = query.getParent().getParent().toUri().getPath();
            for (java.nio.file.Path epoch : CopyRetention.names(place.getParent().getParent())) {
                String other = above + "/" + epoch.getFileName() + "/" + query.getName();
                // guard: copies-that-the-base-names-removed
                if (!epoch.equals(place.getParent()) && !named.contains(other)) {
                    CopiesSweep.remove(epoch.resolve(query.getName()));
                }
            }
        } catch (IOException | RuntimeException e) {
            folder.failed(e);
        }
    }
}
