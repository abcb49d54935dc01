package io.github.sparkha;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.Path;

/** How Spark names the files of a checkpoint: to which query's directory a path belongs, and what its name promises. */
final class Layout {
    /** The first segment after which everything looks as Spark makes it; jobs and queries may have any name. */
    private static final Pattern CHECKPOINT = Pattern.compile(
        "(?<root>.*?)/(?<name>metadata|(?:offsets|commits)(?:/\\.?\\d[^/]*)?|(?:sources|state)(?:/\\.?\\d+(?:/.*)?)?)");
    private static final Pattern UUID =
        Pattern.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");
    private static final Pattern REPLACEABLE =
        Pattern.compile("\\d+\\.(?:zip|delta|snapshot|changelog)(?:\\.crc)?");
    /** State of RocksDB in format 2: the names of versions and tables have the id of the task that made them. */
    private static final Pattern STATE_FILE = Pattern.compile(
        "(?<query>.*)/(?<partition>state/\\d+/\\d+(?:/[^/]+)?)/(?<file>(?:SSTs|logs)/\\d+-" + UUID + "\\.(?:sst|log)"
            + "|(?<version>\\d{1,18})_" + UUID + "\\.(?<kind>zip|changelog)(?:\\.crc)?)");
    private static final Pattern LOG_DIRECTORY = Pattern.compile("offsets|commits|sources/\\d+");
    private static final Pattern LOG_ENTRY = Pattern.compile("(?:offsets|commits)/\\d+");
    static final String COMPACT = ".compact";

    /** A path below a query's directory. */
    record Place(String root, String name) {
        /** Whether only the collector may delete it. */
        boolean isCollected() {
            return !name.equals("metadata") && !isHidden(name);
        }
    }

    /**
     * A state file whose name no process writes twice.
     *
     * @param query the query's directory
     * @param partition names of operator, partition and, where it has several, store
     * @param file below the partition's directory
     * @param version -1 for a table, which several versions may name
     * @param isSnapshot whether it is a version that names tables, and not the changes of one
     */
    record StateFile(String query, String partition, String file, long version, boolean isSnapshot) {
        String directory() {
            return query + "/" + partition;
        }
    }

    private Layout() {
    }

    /** Splits a path into a query's directory and a name below it; null when it is not one of Spark's names. */
    static Place place(String path) {
        Matcher found = CHECKPOINT.matcher(path);
        return found.matches() ? new Place(found.group("root"), found.group("name")) : null;
    }

    /** Takes the path of a state file apart; null for names that are written again, and for all others. */
    static StateFile stateFile(String path) {
        Matcher found = STATE_FILE.matcher(path);
        if (!found.matches()) {
            return null;
        }
        String version = found.group("version");
        return new StateFile(found.group("query"), found.group("partition"), found.group("file"),
            version == null ? -1 : Long.parseLong(version), "zip".equals(found.group("kind")));
    }

    /** Whether no process ever writes this name twice, so that an own file of this name cannot be another one. */
    static boolean isUnique(String name) {
        return name.startsWith("state/") && UUID.matcher(last(name)).find();
    }

    /** Whether executors of an earlier attempt may replace the file under this name. */
    static boolean isReplaceable(String name) {
        return name.startsWith("state/") && REPLACEABLE.matcher(last(name)).matches();
    }

    /** Whether it is the directory of a log that only the driver writes, below a query's directory. */
    static boolean isLogDirectory(String name) {
        return LOG_DIRECTORY.matcher(name).matches();
    }

    /** Whether it names a file of the logs that plan and commit batches, below a query's directory. */
    static boolean isLogEntry(String name) {
        return LOG_ENTRY.matcher(name).matches();
    }

    /** Whether it is an entry of the logs that plan and commit batches. */
    static boolean isLog(Path entry) {
        String directory = entry.getParent().getName();
        return directory.equals("offsets") || directory.equals("commits");
    }

    /** Whether it may only be created while this JVM leads. */
    static boolean isGated(Path entry) {
        return isLog(entry) || isSinkLog(entry);
    }

    static boolean isSinkLog(Path entry) {
        return isSinkLogDirectory(entry.getParent());
    }

    static boolean isSinkLogDirectory(Path directory) {
        return directory.getName().equals("_spark_metadata");
    }

    /** The other name of the same batch: N of N.compact, N.compact of N; null for names that have none. */
    static String sibling(String name) {
        if (name.endsWith(COMPACT)) {
            return name.substring(0, name.length() - COMPACT.length());
        }
        return last(name).chars().allMatch(Character::isDigit) ? name + COMPACT : null;
    }

    private static boolean isHidden(String name) {
        return last(name).startsWith(".");
    }

    private static String last(String name) {
        return name.substring(name.lastIndexOf('/') + 1);
    }
}
