package io.github.sparkha;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * Removal of copies that nobody has used for long, or the longest when there is no room.
 *
 * <p>It follows no links, and removes only regular files with the names of copies, and directories that are empty.
 */
final class CopiesSweep {
    private static final long UNUSED = TimeUnit.DAYS.toMillis(7);
    private static final long LEFT_OVER = TimeUnit.HOURS.toMillis(1);
    private static final long INTERVAL = TimeUnit.MINUTES.toMillis(1);

    /** The copies of a partition: newest version, bytes, and when one of them was made or read last. */
    private static final class Partition {
        private long version = -1;
        private long bytes;
        private long last;
    }

    private CopiesSweep() {
    }

    /**
     * Removes what is too old, counts the rest, and goes on counting: other JVMs use the same directory.
     *
     * @param used receives the bytes of all copies
     * @param told receives each partition that has copies, as {@link CopiesFolder#tell} says
     */
    static void begin(Path copies, AtomicLong used, Consumer<Map<String, Long>> told) {
        Thread thread = new Thread(() -> {
            try {
                while (true) {
                    Map<String, Long> versions = new HashMap<>();
                    used.set(sweep(copies, versions));
                    tell(versions, told);
                    Thread.sleep(INTERVAL);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }, "spark-ha-copies");
        thread.setDaemon(true);
        thread.start();
    }

    private static void tell(Map<String, Long> versions, Consumer<Map<String, Long>> told) {
        try {
            told.accept(versions);
        } catch (RuntimeException e) {
            Counters.count(Counters.COPY_ERROR);
        }
    }

    /** Removes what is too old; returns the bytes of the rest. */
    static long sweep(Path copies) {
        return sweep(copies, new HashMap<>());
    }

    private static long sweep(Path copies, Map<String, Long> versions) {
        long oldest = System.currentTimeMillis() - UNUSED;
        long bytes = 0;
        for (Map.Entry<Path, Partition> each : partitions(copies).entrySet()) {
            Partition partition = each.getValue();
            bytes += partition.last < oldest ? removed(each, 0) : partition.bytes;
            if (partition.last >= oldest && partition.version >= 0) {
                Path location = copies.relativize(each.getKey());
                versions.put(location.subpath(1, location.getNameCount()).toString(), partition.version);
            }
        }
        return bytes;
    }

    /** Removes the copies of those partitions that were used the longest ago; returns the bytes of the rest. */
    static long makeRoom(Path copies, long allowed, Path kept) {
        Map<Path, Partition> all = partitions(copies);
        long bytes = all.values().stream().mapToLong(each -> each.bytes).sum();
        List<Map.Entry<Path, Partition>> byUse = new ArrayList<>(all.entrySet());
        byUse.sort(Comparator.comparingLong(each -> each.getValue().last));
        for (Map.Entry<Path, Partition> each : byUse) {
            if (bytes > allowed && !each.getKey().equals(kept)) {
                bytes -= removed(each, each.getValue().bytes);
            }
        }
        return bytes;
    }

    private static long removed(Map.Entry<Path, Partition> partition, long told) {
        remove(partition.getKey());
        Counters.count(Counters.COPY_REMOVED);
        return told;
    }

    private static Map<Path, Partition> partitions(Path copies) {
        Map<Path, Partition> found = new HashMap<>();
        try {
            Files.walkFileTree(copies, new SimpleFileVisitor<Path>() {
                @Override
                public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
                    Layout.StateFile name = Layout.stateFile(Copy.ofNote(file.toString()));
                    if (name != null && attributes.isRegularFile()) {
                        Partition of = found.computeIfAbsent(Path.of(name.directory()), path -> new Partition());
                        of.bytes += attributes.size();
                        of.version = Math.max(of.version, name.version());
                        of.last = Math.max(of.last, Copy.isNote(file) ? attributes.lastModifiedTime().toMillis() : 0);
                    } else if (attributes.isRegularFile() && Copy.isUnfinished(file)) {
                        removeLeftOver(file);
                    }
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult visitFileFailed(Path file, IOException error) {
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult postVisitDirectory(Path directory, IOException error) throws IOException {
                    if (age(Files.getLastModifiedTime(directory)) > LEFT_OVER) {
                        deleteEmpty(directory);
                    }
                    return FileVisitResult.CONTINUE;
                }
            });
        } catch (IOException e) {
            Counters.count(Counters.COPY_ERROR);
        }
        return found;
    }

    /** What a process that ended has not finished. A link has the times of the table that it is a link to. */
    private static void removeLeftOver(Path file) {
        try {
            if (age((FileTime) Files.getAttribute(file, "unix:ctime")) > LEFT_OVER) {
                Files.deleteIfExists(file);
            }
        } catch (IOException e) {
            Counters.count(Counters.COPY_ERROR);
        }
    }

    private static long age(FileTime time) {
        return System.currentTimeMillis() - time.toMillis();
    }

    /** Removes copies below a directory, and the directories that become empty; other files and links stay. */
    static void remove(Path directory) {
        try {
            Files.walkFileTree(directory, new SimpleFileVisitor<Path>() {
                @Override
                public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                    boolean own = Layout.stateFile(Copy.ofNote(file.toString())) != null || Copy.isUnfinished(file);
                    // guard: foreign-files-among-the-copies-removed
                    if (attributes.isRegularFile() && own) {
                        Files.deleteIfExists(file);
                    }
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult visitFileFailed(Path file, IOException error) {
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult postVisitDirectory(Path path, IOException error) throws IOException {
                    deleteEmpty(path);
                    return FileVisitResult.CONTINUE;
                }
            });
        } catch (IOException e) {
            Counters.count(Counters.COPY_ERROR);
        }
    }

    private static void deleteEmpty(Path directory) throws IOException {
        try (DirectoryStream<Path> names = Files.newDirectoryStream(directory)) {
            if (names.iterator().hasNext()) {
                return;
            }
        }
        try {
            Files.deleteIfExists(directory);
        } catch (java.nio.file.DirectoryNotEmptyException e) {
            // Another process has just made a copy here.
        }
    }
}
