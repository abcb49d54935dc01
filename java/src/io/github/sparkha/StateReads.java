package io.github.sparkha;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.Path;

/** What the tasks of each query have read of its state, and from where: of this JVM, and in the driver of all. */
public final class StateReads {
    private static final int COPY_FILES = 0;
    private static final int COPY_BYTES = 1;
    private static final int STORE_FILES = 2;
    private static final int STORE_BYTES = 3;
    private static final int NANOS = 4;
    private static final int FIGURES = 5;
    /** Key of a report for what the executor's directory is refused for. */
    private static final String REFUSAL = "";
    /** Key of a report for the bytes and the microseconds of the copies that the executor has made. */
    static final String MADE = "made";

    private static final Map<String, AtomicLongArray> OWN = new ConcurrentHashMap<>();
    private static final Map<String, Map<String, String>> REPORTED = new ConcurrentHashMap<>();

    private StateReads() {
    }

    static void copy(String query, long bytes, long nanos) {
        add(query, COPY_FILES, 1, COPY_BYTES, bytes, nanos);
    }

    static void store(String query, int files, long bytes, long nanos) {
        add(query, STORE_FILES, files, STORE_BYTES, bytes, nanos);
    }

    private static void add(String query, int first, long files, int second, long bytes, long nanos) {
        AtomicLongArray figures = OWN.computeIfAbsent(query, key -> new AtomicLongArray(FIGURES));
        figures.addAndGet(first, files);
        figures.addAndGet(second, bytes);
        figures.addAndGet(NANOS, nanos);
    }

    /** What this JVM says to the driver: the path of each query's directory with its figures. */
    public static HashMap<String, String> own() {
        HashMap<String, String> all = new HashMap<>();
        OWN.forEach((query, figures) -> {
            long[] now = new long[FIGURES];
            Arrays.setAll(now, figures::get);
            all.put(query, joined(now));
        });
        if (!CopiesFolder.refusals().isEmpty()) {
            all.put(REFUSAL, CopiesFolder.refusals());
        }
        all.put(MADE, Counters.sum(Counters.COPY_MADE_BYTES) + " " + Counters.sum(Counters.COPY_MICROSECONDS));
        return all;
    }

    private static String joined(long[] figures) {
        return Arrays.stream(figures).mapToObj(Long::toString).collect(Collectors.joining(" "));
    }

    /** Notes in the driver what an executor says; its figures only grow. */
    static void report(String executor, Map<String, String> said) {
        REPORTED.put(executor, said);
    }

    /**
     * The figures of a query of all executors, with blanks between: files and bytes from copies, files and bytes from
     * the store, microseconds of all tasks together, and partitions that were returned to a host with copies.
     *
     * @param location the query's directory, as Spark sees it
     */
    public static String of(String location) {
        String query = new Path(location).toUri().getPath();
        long[] sums = sums(query, FIGURES);
        sums[NANOS] = TimeUnit.NANOSECONDS.toMicros(sums[NANOS]);
        return joined(sums) + " " + HeldPartitions.placed(query);
    }

    /** The bytes of all copies that executors have made, and the microseconds of their tasks for that. */
    public static String made() {
        return joined(sums(MADE, 2));
    }

    /** Sums what all executors report below a key. One that reports nothing there adds nothing. */
    private static long[] sums(String key, int length) {
        long[] sums = new long[length];
        for (Map<String, String> said : REPORTED.values()) {
            String[] figures = said.getOrDefault(key, "").split(" ");
            for (int each = 0; each < length && figures.length == length; each++) {
                sums[each] += Long.parseLong(figures[each]);
            }
        }
        return sums;
    }

    /** Why executors keep no copies; empty when none says that. */
    public static String refusals() {
        return REPORTED.values().stream().map(said -> said.getOrDefault(REFUSAL, "")).filter(said -> !said.isEmpty())
            .distinct().sorted().collect(Collectors.joining("; "));
    }
}
