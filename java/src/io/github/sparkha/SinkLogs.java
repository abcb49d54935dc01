package io.github.sparkha;

import java.io.IOException;
import java.net.URI;
import java.util.Locale;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * How far the log of each file sink was when its query was started, and what this JVM has added since.
 *
 * <p>Spark skips a batch that is in the log without executing its plan: no state is written. So the driver looks into
 * the log before it starts a query. A request of its predecessor may still be on its way then, and arrive after that
 * look: such an entry has to end the query.
 */
public final class SinkLogs {
    private static final ConcurrentHashMap<String, Long> REACHED = new ConcurrentHashMap<>();

    /** The log has an entry that neither was there before the query was started nor is of this JVM. */
    public static final class EntryOfAnother extends IOException {
        private static final long serialVersionUID = 1L;

        EntryOfAnother(String message) {
            super(message);
        }
    }

    private SinkLogs() {
    }

    /**
     * Notes what the log of an output had when its query was about to start.
     *
     * @param output the directory, with any name of its scheme
     * @param reached the last batch in its log; -1 for none
     */
    public static void start(String output, long reached) {
        REACHED.put(key(new Path(output)), reached);
    }

    /** Notes an entry of this JVM before another thread can see it; when another driver is faster the query ends. */
    static void writes(Path entry) {
        long batch = batch(entry);
        REACHED.computeIfPresent(key(entry.getParent().getParent()), (log, last) -> Math.max(last, batch));
    }

    static void check(Path log, FileStatus[] found) throws IOException {
        Long reached = REACHED.get(key(log.getParent()));
        if (reached == null) {
            return;
        }
        for (FileStatus status : found) {
            if (batch(status.getPath()) > reached) {
                throw new EntryOfAnother(status.getPath() + " was written by another driver after this one had looked"
                    + " into the log: its batch would be skipped without its state; the next start executes it");
            }
        }
    }

    /** One bucket has several schemes, and one directory is one log. */
    private static String key(Path output) {
        URI uri = output.toUri();
        String authority = uri.getAuthority() == null ? "" : uri.getAuthority().toLowerCase(Locale.ROOT);
        return authority + uri.getPath();
    }

    private static long batch(Path entry) {
        String name = entry.getName();
        boolean compact = name.endsWith(Layout.COMPACT);
        try {
            return Long.parseLong(compact ? name.substring(0, name.length() - Layout.COMPACT.length()) : name);
        } catch (NumberFormatException e) {
            return -1;
        }
    }
}
