package io.github.sparkha;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;

/**
 * The directory of a user's copies on a host: whether it may be used, and how full it may become.
 *
 * <p>Whoever writes here decides what a job reads as its state. So it belongs to the user alone, and a directory with
 * files that are not the component's is neither used nor emptied.
 */
final class CopiesFolder {
    /** Conf key: whether copies are kept. */
    static final String SWITCH = "fs.ha.copies";
    /** Conf key: the directory; by default one per user below the temporary directory of the JVM. */
    static final String DIRECTORY = "fs.ha.copies.directory";
    /** Conf key: how many megabytes the copies may take. */
    static final String MEGABYTES = "fs.ha.copies.mb";

    /** Default of {@link #MEGABYTES}. */
    static final String MOST = "10000";

    /** The file by which the component recognizes its directory. */
    private static final String MARK = "spark-ha-copies";
    /** Where the copies lie: another layout would get another name. */
    private static final String LAYOUT = "v1";
    private static final long MEGABYTE = 1_000_000;
    private static final int ERRORS_IN_A_ROW = 3;
    private static final Pattern DISK = Pattern.compile(
        "No space left on device|Disk quota exceeded|Read-only file system", Pattern.CASE_INSENSITIVE);
    private static final FileAttribute<?> PRIVATE =
        PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));
    private static final int TYPE = 0170000;
    private static final int DIRECTORY_TYPE = 0040000;
    private static final int STICKY = 01000;
    private static final int OTHERS = 0077;
    private static final int OTHERS_WRITE = 0022;

    private static final Map<String, CopiesFolder> FOLDERS = new ConcurrentHashMap<>();
    private static volatile long pause = 60_000;

    private final Path root;
    private final long quota;
    private final AtomicInteger errors = new AtomicInteger();
    private final AtomicLong used = new AtomicLong();
    private final AtomicLong closedUntil = new AtomicLong(System.nanoTime());
    private volatile boolean open;
    private boolean swept;
    private volatile String refusal = "";
    private volatile Consumer<Map<String, Long>> told = found -> {
    };

    private CopiesFolder(Path root, long quota) {
        this.root = root;
        this.quota = quota;
    }

    /** The directory that a conf names, one object per JVM; null when copies are off. */
    static CopiesFolder of(Configuration conf) throws IOException {
        if (!conf.get(SWITCH, "false").equals("true")) {
            return null;
        }
        return named(conf.get(DIRECTORY, ""), conf.get(MEGABYTES, MOST));
    }

    /**
     * The directory of this JVM's user.
     *
     * @param directory empty for one below the temporary directory of the JVM
     * @param megabytes how many the copies may take
     */
    static CopiesFolder named(String directory, String megabytes) throws IOException {
        Path root = directory.isEmpty()
            ? Path.of(System.getProperty("java.io.tmpdir"), MARK + "-" + uid(Path.of("/proc/self")))
            : Path.of(directory);
        long quota = Long.parseLong(megabytes) * MEGABYTE;
        return FOLDERS.computeIfAbsent(root + " " + quota, key -> new CopiesFolder(root, quota));
    }

    /** Why no copies are made in a directory of this JVM; empty when nothing is known against them. */
    static String refusals() {
        return FOLDERS.values().stream().map(folder -> folder.refusal).filter(reason -> !reason.isEmpty())
            .collect(Collectors.joining("; "));
    }

    /**
     * Has a listener told of the copies in the directory now and every minute: location of a partition, without its
     * scheme, with its newest version. Without a usable directory there are none.
     */
    void tell(Consumer<Map<String, Long>> listener) {
        told = listener;
        if (!isUsable()) {
            listener.accept(Map.of());
        }
    }

    /** Where the copies lie. */
    Path copies() {
        return root.resolve(LAYOUT);
    }

    /** Where the copy of a file lies: its full location, below the directory. */
    Path place(org.apache.hadoop.fs.Path source) throws IOException {
        String authority = source.toUri().getAuthority();
        Path base = copies().resolve(source.toUri().getScheme()).resolve(authority == null ? "_" : authority);
        Path place = Path.of(base + source.toUri().getPath());
        if (!place.equals(place.normalize())) {
            throw new IOException(source + " is not a location of plain names");
        }
        return place;
    }

    /** Whether the directory can be read: it was checked, or is checked now. */
    boolean isUsable() {
        if (open) {
            return true;
        }
        if (isSuspended()) {
            return false;
        }
        try {
            check();
            return true;
        } catch (IOException | RuntimeException e) {
            Counters.count(Counters.COPY_REFUSED);
            suspend(e.getMessage() == null ? e.toString() : e.getMessage());
            return false;
        }
    }

    /** Whether a copy of this length may be made now; makes room where it can. */
    boolean admits(long length, Path partition) {
        open &= Files.isDirectory(root, LinkOption.NOFOLLOW_LINKS);
        if (isSuspended() || !isUsable()) {
            return false;
        }
        if (used.get() + length > limit()) {
            used.set(CopiesSweep.makeRoom(copies(), limit() - length, partition));
            if (used.get() + length > limit()) {
                suspend("the directory of copies " + root + " is full: " + limit() + " bytes may be used");
                return false;
            }
        }
        return true;
    }

    /** The quota, and at most half of what would be free without the copies. */
    private long limit() {
        return Math.min(quota, (root.toFile().getUsableSpace() + used.get()) / 2);
    }

    /** Makes the directories above a copy; the user's own directory is made again where it was removed. */
    void makeAbove(Path place) throws IOException {
        if (!Files.isDirectory(place.getParent(), LinkOption.NOFOLLOW_LINKS)) {
            check();
            Files.createDirectories(place.getParent(), PRIVATE);
            mark(); // it may just have been removed
        }
    }

    void added(long bytes) {
        used.addAndGet(bytes);
        errors.set(0);
        refusal = "";
    }

    /** An error is counted; no more copies are made for a while after some in a row, and at once when the disk is full. */
    void failed(Throwable error) {
        Counters.count(Counters.COPY_ERROR);
        if (errors.incrementAndGet() >= ERRORS_IN_A_ROW || DISK.matcher(String.valueOf(error)).find()) {
            suspend("no copies are made in " + root + " for a while: " + error);
        }
    }

    private void suspend(String reason) {
        refusal = reason;
        Counters.count(Counters.COPY_SUSPENDED);
        errors.set(0);
        closedUntil.set(System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pause));
    }

    private boolean isSuspended() {
        return closedUntil.get() - System.nanoTime() > 0;
    }

    /** Checks the directory, makes it where there is none, and marks it. */
    private synchronized void check() throws IOException {
        open = false;
        if (!root.isAbsolute()) {
            throw new IOException(root + " is not an absolute path");
        }
        Path above = root.getParent();
        while (!Files.exists(above)) {
            above = above.getParent();
        }
        checkAbove(above.toRealPath());
        Files.createDirectories(root.getParent(), PRIVATE);
        try {
            checkOwn();
        } catch (NoSuchFileException e) {
            Files.createDirectory(root, PRIVATE);
            checkOwn();
        }
        open = true;
        refusal = "";
        if (!swept) {
            swept = true;
            CopiesSweep.begin(copies(), used, found -> told.accept(found));
        }
    }

    /** A directory that others could put in the place of this one. */
    private void checkAbove(Path directory) throws IOException {
        long own = uid(Path.of("/proc/self"));
        for (Path each = directory; each != null; each = each.getParent()) {
            int mode = mode(each);
            long owner = uid(each);
            // guard: copies-below-what-others-write
            if (owner != 0 && owner != own || (mode & OTHERS_WRITE) != 0 && (mode & STICKY) == 0) {
                throw new IOException("the directory of copies " + root + " is refused: others can replace " + each);
            }
        }
    }

    private void checkOwn() throws IOException {
        int mode = mode(root);
        if ((mode & TYPE) != DIRECTORY_TYPE) {
            throw refused("it is a link or no directory");
        }
        // guard: copies-in-a-directory-of-others
        if (uid(root) != uid(Path.of("/proc/self"))) {
            throw refused("it belongs to another user");
        }
        if ((mode & OTHERS) != 0) {
            throw refused("others can enter it: chmod 700");
        }
        Path mark = root.resolve(MARK);
        if (!Files.isRegularFile(mark, LinkOption.NOFOLLOW_LINKS)) {
            try (Stream<Path> files = Files.list(root)) {
                // guard: copies-among-foreign-files
                if (files.findAny().isPresent() && !Files.isRegularFile(mark, LinkOption.NOFOLLOW_LINKS)) {
                    throw refused("it has files of others: name an empty directory");
                }
            }
            mark();
        }
    }

    private void mark() throws IOException {
        Path mark = root.resolve(MARK);
        if (!Files.isRegularFile(mark, LinkOption.NOFOLLOW_LINKS)) {
            Files.write(mark, "Copies of Spark's state, made by spark-ha. Remove them at any time.\n"
                .getBytes(StandardCharsets.US_ASCII));
        }
    }

    private IOException refused(String reason) {
        return new IOException("the directory of copies " + root + " is refused: " + reason);
    }

    private static int mode(Path path) throws IOException {
        return (Integer) Files.getAttribute(path, "unix:mode", LinkOption.NOFOLLOW_LINKS);
    }

    private static long uid(Path path) throws IOException {
        // /proc/self is a link: what it leads to belongs to this process.
        LinkOption[] how = path.startsWith("/proc") ? new LinkOption[0] : new LinkOption[] {LinkOption.NOFOLLOW_LINKS};
        return ((Integer) Files.getAttribute(path, "unix:uid", how)).longValue();
    }
}
