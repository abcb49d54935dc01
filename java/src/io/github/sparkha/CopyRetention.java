package io.github.sparkha;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/**
 * Which copies of a partition stay: the newest committed version and the one in progress, the changes after the older of
 * the two, and the tables that they name.
 *
 * <p>The directories of all epochs of a job are one: a new epoch reads what the one before it wrote.
 */
final class CopyRetention {
    private static final Pattern NAMED = Pattern.compile("\"dfs(?:Sst|Log)FileName\"\\s*:\\s*\"([^\"]+)\"");
    private static final String METADATA = "metadata";

    /** The highest version that this JVM has written to a directory of a partition. */
    private static final Map<Path, Long> NEWEST = new ConcurrentHashMap<>();
    /** The version that followed the newest snapshot that this JVM has read, or the newest snapshot that it has written. */
    private static final Map<Path, Long> IN_PROGRESS = new ConcurrentHashMap<>();
    /** What a version that was copied names; it never changes. */
    private static final Map<Path, Set<String>> TABLES = new ConcurrentHashMap<>();

    /** One copy. */
    private record Held(Path path, Layout.StateFile name) {
        boolean isTable() {
            return name.version() < 0;
        }

        String last() {
            return path.getFileName().toString();
        }
    }

    private CopyRetention() {
    }

    /**
     * Removes what a version that was just written has made needless.
     *
     * @param copy of the version
     */
    static void apply(Copy copy) throws IOException {
        Layout.StateFile written = Layout.stateFile(copy.file().toString());
        long newest = NEWEST.merge(copy.file().getParent(), written.version(), Math::max);
        if (written.isSnapshot()) {
            IN_PROGRESS.merge(copy.file().getParent(), written.version(), Math::max);
        }
        List<Held> all = held(written);
        // Of an attempt that is over, or of a later future that was given up.
        long oldest = all.stream().filter(each -> each.name.isSnapshot() && isVersion(each) && each.name.version() < newest)
            .mapToLong(each -> each.name.version()).max().orElse(-1);
        Set<String> needed = new HashSet<>();
        long since = Long.MAX_VALUE;
        for (Held each : all) {
            boolean stays = each.isTable() || each.name.version() >= oldest && each.name.version() <= newest;
            if (!stays) {
                remove(each);
            } else if (each.name.isSnapshot() && isVersion(each)) {
                needed.addAll(tables(each.path));
                since = Math.min(since, Files.getLastModifiedTime(new Copy(each.path).note()).toMillis());
            }
        }
        for (Held each : all) {
            // A later table may belong to a version that is being uploaded.
            if (each.isTable() && !needed.contains(each.last()) && made(each) < since) {
                remove(each);
            }
        }
    }

    /**
     * Whether it is a snapshot before the one that this JVM has loaded, or before the two newest that it has written.
     *
     * <p>A task that is repeated loads the version before the one that it has written.
     */
    static boolean isPast(Copy own) {
        Layout.StateFile read = Layout.stateFile(own.file().toString());
        if (!read.isSnapshot()) {
            return false;
        }
        return read.version() + 1 < IN_PROGRESS.merge(own.file().getParent(), read.version() + 1, Math::max);
    }

    /** The newest version of a copy's partition of which there are copies, of all epochs of the job; -1 without any. */
    static long newest(Copy copy) throws IOException {
        return held(Layout.stateFile(copy.file().toString())).stream().mapToLong(each -> each.name.version()).max()
            .orElse(-1);
    }

    private static boolean isVersion(Held held) {
        return !held.last().endsWith(".crc");
    }

    /** Copies of the partition, of all epochs of the job. */
    private static List<Held> held(Layout.StateFile written) throws IOException {
        Path query = Path.of(written.query());
        List<Held> found = new ArrayList<>();
        for (Path epoch : names(query.getParent().getParent())) {
            Path partition = epoch.resolve(query.getFileName()).resolve(written.partition());
            for (Path directory : List.of(partition, partition.resolve("SSTs"), partition.resolve("logs"))) {
                Set<Path> all = new HashSet<>(names(directory));
                for (Path file : all) {
                    Layout.StateFile name = Layout.stateFile(file.toString());
                    if (name != null && all.contains(new Copy(file).note())) {
                        found.add(new Held(file, name));
                    }
                }
            }
        }
        return found;
    }

    static List<Path> names(Path directory) throws IOException {
        List<Path> found = new ArrayList<>();
        try (DirectoryStream<Path> names = Files.newDirectoryStream(directory)) {
            names.forEach(found::add);
        } catch (NoSuchFileException | NotDirectoryException e) {
            return List.of();
        }
        return found;
    }

    private static long made(Held table) throws IOException {
        Path note = new Copy(table.path).note();
        return Files.exists(note) ? Files.getLastModifiedTime(note).toMillis() : Long.MAX_VALUE;
    }

    private static void remove(Held held) {
        new Copy(held.path).drop();
        TABLES.remove(held.path);
    }

    /** The names of the tables of a version. */
    private static Set<String> tables(Path version) throws IOException {
        Set<String> known = TABLES.get(version);
        if (known == null) {
            known = new HashSet<>();
            try (ZipFile zip = new ZipFile(version.toFile())) {
                ZipEntry entry = zip.getEntry(METADATA);
                if (entry == null) {
                    throw new IOException(version + " has no " + METADATA);
                }
                try (InputStream in = zip.getInputStream(entry)) {
                    Matcher named = NAMED.matcher(new String(in.readAllBytes(), StandardCharsets.UTF_8));
                    while (named.find()) {
                        known.add(named.group(1));
                    }
                }
            }
            TABLES.put(version, known);
        }
        return known;
    }
}
