package io.github.sparkha;

import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.HashMap;
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
     * Copies the files that have no copy here, and removes what they have made needless. An error ends it, and is counted.
     *
     * @param files locations in the store of all state files of a checkpoint
     * @return how many were copied
     */
    public int fetch(List<String> files) {
        int fetched = 0;
        try {
            Map<String, Long> newest = new HashMap<>();
            List<Copy> versions = new ArrayList<>();
            for (String each : files) {
                Layout.StateFile name = Layout.stateFile(new Path(each).toUri().getPath());
                if (name != null) {
                    newest.merge(name.directory(), name.version(), Math::max);
                }
            }
            for (String each : files) {
                Path source = new Path(each);
                Layout.StateFile name = Layout.stateFile(source.toUri().getPath());
                if (stopped || name == null || !folder.isUsable()) {
                    continue;
                }
                Copy copy = new Copy(folder.place(source));
                // guard: newer-copies-replaced-by-a-refresh
                if (CopyRetention.newest(copy) > newest.get(name.directory())) {
                    continue; // a task of this host is ahead of the checkpoint
                }
                fetched += !copy.isNoted() && copied(source, copy) ? 1 : 0;
                if (name.version() >= 0 && copy.isNoted() && !each.endsWith(".crc")) {
                    versions.add(copy);
                }
            }
            for (Copy version : versions) {
                CopyRetention.apply(version);
            }
        } catch (IOException | RuntimeException e) {
            folder.failed(e);
        }
        return fetched;
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
