package io.github.sparkha;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

/** What the component did in this JVM, by kind. Kinds are counted per call, not per request of a retry. */
public final class Counters {
    /** A file was opened, or copied to the local disk. */
    public static final String READ = "read";
    /** Of these: from the place that the base names. */
    public static final String READ_FROM_BASE = "read_from_base";
    /** The status of a file or directory was asked for. */
    public static final String STATUS = "status";
    /** A directory was listed. */
    public static final String LIST = "list";
    /** A file was created or uploaded. */
    public static final String WRITE = "write";
    /** Of these: exclusively, by a writer that another one was faster than. */
    public static final String WRITE_LOST = "write_lost";
    /** Of these: exclusively, refused by the store for a first request of the same writer whose reply was lost. */
    public static final String WRITE_OWNED = "write_owned";
    /** A file was deleted. */
    public static final String DELETE = "delete";
    /** A delete was left to the collector. */
    public static final String DELETE_LEFT = "delete_left";
    /** A base was looked for. */
    public static final String BASE = "base";
    /** The gate refused an entry. */
    public static final String GATE_REFUSED = "gate_refused";

    /** A copy of a state file on the local disk was made: by a link or by its bytes. */
    public static final String COPY_MADE = "copy_made";
    /** Bytes of these. */
    public static final String COPY_MADE_BYTES = "copy_made_bytes";
    /** A copy was read in the place of its primary. */
    public static final String COPY_READ = "copy_read";
    /** Bytes of these. */
    public static final String COPY_READ_BYTES = "copy_read_bytes";
    /** There was no copy. */
    public static final String COPY_MISSING = "copy_missing";
    /** A copy had another length or other bytes than noted, or a note that is not known. */
    public static final String COPY_WRONG = "copy_wrong";
    /** A copy could not be made, read or removed. */
    public static final String COPY_ERROR = "copy_error";
    /** No copies are made for a minute: errors in a row, no room. */
    public static final String COPY_SUSPENDED = "copy_suspended";
    /** The directory of the copies may not be used. */
    public static final String COPY_REFUSED = "copy_refused";
    /** The copies of a partition were removed: unused, or no room. */
    public static final String COPY_REMOVED = "copy_removed";
    /** Microseconds that tasks have spent on making copies. */
    public static final String COPY_MICROSECONDS = "copy_us";

    private static final ConcurrentHashMap<String, LongAdder> COUNTS = new ConcurrentHashMap<>();

    private Counters() {
    }

    static void count(String kind) {
        add(kind, 1);
    }

    static void add(String kind, long more) {
        COUNTS.computeIfAbsent(kind, name -> new LongAdder()).add(more);
    }

    static long sum(String kind) {
        LongAdder count = COUNTS.get(kind);
        return count == null ? 0 : count.sum();
    }

    /** How often each kind happened, or how much, since the JVM started. */
    public static Map<String, Long> snapshot() {
        Map<String, Long> now = new TreeMap<>();
        COUNTS.forEach((kind, count) -> now.put(kind, count.sum()));
        return now;
    }
}
