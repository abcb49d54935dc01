package io.github.sparkha;

import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Makes copies of the state of a checkpoint on the host of a standby driver, which has not read or written that state.
 *
 * <p>It reads the store slowly, for the leader uses the same store, and stops when the driver is about to lead.
 */
public final class CopyRefresh {
    private static final int BUFFER = 1 << 16;

    private final Configuration conf;
    private final CopiesFolder folder;
    private final long rate;
    private volatile boolean stopped;

    /**
     * Uses the directory of this host's copies.
     *
     * @param conf reaches the store
     * @param directory as {@link CopiesFolder#named}
     * @param megabytes as there
     * @param rate bytes per second
     */
    public CopyRefresh(Configuration conf, String directory, String megabytes, long rate) throws IOException {
        this.conf = conf;
        this.folder = CopiesFolder.named(directory, megabytes);
        this.rate = rate;
    }

    /** Ends a run of {@link #fetch} after the file that it reads. */
    public void stop() {
        stopped = true;
    }

    /**
     * Copies the files that have no copy here, and removes what they have made needless.
     *
     * @param files locations in the store of all state files of a checkpoint
     * @return how many were copied
     * @throws IOException of the store or of the disk, which is counted: not all files were copied
     */
    public int fetch(List<String> files) throws IOException {
        Map<String, List<Path>> partitions = new LinkedHashMap<>();
        for (String each : files) {
            Path source = new Path(each);
            Layout.StateFile name = Layout.stateFile(source.toUri().getPath());
            if (name != null) {
                partitions.computeIfAbsent(name.directory(), partition -> new ArrayList<>()).add(source);
            }
        }
        int fetched = 0;
        try {
            for (List<Path> sources : partitions.values()) {
                fetched += fetchPartition(sources);
            }
        } catch (IOException | RuntimeException e) {
            folder.failed(e);
            throw e;
        }
        return fetched;
    }

    private int fetchPartition(List<Path> sources) throws IOException {
        int fetched = 0;
        Path newest = sources.stream().filter(source -> !source.getName().endsWith(".crc"))
            .max(Comparator.comparingLong(CopyRefresh::version)).orElse(sources.get(0));
        Copy last = new Copy(folder.place(newest));
        // guard: newer-copies-replaced-by-a-refresh
        if (stopped || !folder.isUsable() || CopyRetention.newest(last) > version(newest)) {
            return 0; // a task of this host is ahead of the checkpoint
        }
        for (Path source : sources) {
            Copy copy = new Copy(folder.place(source));
            if (!stopped && !copy.isNoted() && copied(source, copy)) {
                fetched++;
            }
        }
        if (version(newest) >= 0 && last.isNoted()) {
            CopyRetention.apply(last); // of the newest version: it removes the changes after the one that it is given
        }
        return fetched;
    }

    private static long version(Path source) {
        return Layout.stateFile(source.toUri().getPath()).version();
    }

    private boolean copied(Path source, Copy copy) throws IOException {
        CopyWriter writer = CopyWriter.begin(folder, copy);
        if (!writer.isOpen()) {
            return false;
        }
        try (InputStream in = source.getFileSystem(conf).open(source)) {
            byte[] buffer = new byte[BUFFER];
            for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
                writer.write(buffer, 0, count);
                TimeUnit.NANOSECONDS.sleep(TimeUnit.SECONDS.toNanos(count) / rate);
            }
            return writer.publish();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        } finally {
            writer.discard();
        }
    }
}
