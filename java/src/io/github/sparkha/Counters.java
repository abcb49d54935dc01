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

    private static final ConcurrentHashMap<String, LongAdder> COUNTS = new ConcurrentHashMap<>();

    private Counters() {
    }

    static void count(String kind) {
        COUNTS.computeIfAbsent(kind, name -> new LongAdder()).increment();
    }

    /** How often each kind happened since the JVM started. */
    public static Map<String, Long> snapshot() {
        Map<String, Long> now = new TreeMap<>();
        COUNTS.forEach((kind, count) -> now.put(kind, count.sum()));
        return now;
    }
}
