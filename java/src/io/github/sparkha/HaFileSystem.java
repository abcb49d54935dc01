package io.github.sparkha;

import io.github.sparkha.InheritedFiles.Source;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.EnumSet;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * The file system {@code <scheme>} under the name {@code ha<scheme>}: a query's directory shows the files that its base
 * names as if they were its own.
 *
 * <p>Own files come first. Creating, renaming and deleting touch the own directory only, whatever the base names.
 *
 * <p>It holds the other file system and extends none: FilterFileSystem would hand copies to and from the local disk,
 * which is how state tables travel, past the base.
 */
public final class HaFileSystem extends FileSystem {
    /** Conf key of the storage root, which the places of a base are relative to. */
    public static final String ROOT = "fs.ha.root";
    /** Conf key: who deletes what Spark does not need any more, {@link #COLLECTOR} or {@link #OWN}. */
    public static final String DELETES = "fs.ha.deletes";
    /** Value of {@link #DELETES}: deletes below a checkpoint's directories are ignored and counted. */
    public static final String COLLECTOR = "collector";
    /** Value of {@link #DELETES}: own files are deleted, and names of the base disappear for this JVM. */
    public static final String OWN = "own";

    private static final String PREFIX = "ha";

    private final Map<String, Base> bases = new ConcurrentHashMap<>();
    private URI uri;
    private FileSystem inner;
    private boolean collected;
    private OwnFiles ownFiles;
    private InheritedFiles inherited;
    private LocalCopies copies;
    private Path working;

    @Override
    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        setConf(conf);
        String authority = name.getAuthority() == null ? "" : name.getAuthority();
        uri = URI.create(name.getScheme() + "://" + authority + (authority.isEmpty() ? "/" : ""));
        String deletes = conf.get(DELETES, COLLECTOR);
        if (!deletes.equals(COLLECTOR) && !deletes.equals(OWN)) {
            throw new IOException(DELETES + " is " + deletes + ": it can be " + COLLECTOR + " or " + OWN);
        }
        collected = deletes.equals(COLLECTOR);
        inner = new Path(plain(name.getScheme()), name.getAuthority(), "/").getFileSystem(conf);
        ownFiles = new OwnFiles(inner, conf);
        inherited = new InheritedFiles(inner, conf);
        working = new Path(name.getScheme(), name.getAuthority(), "/");
        copies = LocalCopies.of(conf);
    }

    private static String plain(String scheme) throws IOException {
        if (!scheme.startsWith(PREFIX) || scheme.length() == PREFIX.length()) {
            throw new IOException(HaFileSystem.class.getName() + " serves schemes like has3a, not " + scheme);
        }
        return scheme.substring(PREFIX.length());
    }

    /** The file system that holds the bytes. */
    FileSystem inner() {
        return inner;
    }

    /** Where an own file lies in the other file system. */
    Path own(Path path) {
        return new Path(inner.getUri().getScheme(), uri.getAuthority(), makeQualified(path).toUri().getPath());
    }

    private Path outer(Path own) {
        return new Path(uri.getScheme(), uri.getAuthority(), own.toUri().getPath());
    }

    /** One path: its own place, and what the base of its query says about it. */
    private record Found(Path own, String name, Base base) {
        Base.Entry entry() {
            return base.file(name);
        }

        boolean isDirectory() {
            return base.isDirectory(name);
        }

        String child(String of) {
            return name.isEmpty() ? of : name + "/" + of;
        }
    }

    /** Looks a path up; of one that is not a name of Spark's, only when it may be a query's directory itself. */
    private Found find(Path path, boolean maybeDirectory) throws IOException {
        Path own = own(path);
        Layout.Place place = Layout.place(own.toUri().getPath());
        if (place != null) {
            return new Found(own, place.name(), base(place.root()));
        }
        return new Found(own, "", maybeDirectory ? base(own.toUri().getPath()) : Base.NONE);
    }

    /** The base of a directory, read once: it is written before anything starts there. */
    private Base base(String directory) throws IOException {
        Base known = bases.get(directory);
        if (known == null) {
            synchronized (bases) {
                known = bases.get(directory);
                if (known == null) {
                    known = Base.read(inner, new Path(inner.getUri().getScheme(), uri.getAuthority(), directory));
                    bases.put(directory, known);
                }
            }
        }
        return known;
    }

    /** Whether there is a file or a directory; of what the base names without a request. */
    boolean contains(Path path) throws IOException {
        Found found = find(path, true);
        if (found.entry() != null || found.isDirectory()) {
            return true;
        }
        if (Layout.isLogEntry(found.name)) {
            return ownFiles.contain(found.own);
        }
        try {
            getFileStatus(path);
            return true;
        } catch (FileNotFoundException e) {
            return false;
        }
    }

    /** Forgets what was listed around a path: a name of the base may have got an own file. */
    void forget(Path path) {
        ownFiles.forget(own(path));
    }

    /** Where the bytes of a file are: in the own directory when it has one of that name, else where the base says. */
    private Source source(Path path) throws IOException {
        Counters.count(Counters.READ);
        Found found = find(path, false);
        Base.Entry entry = found.entry();
        if (entry == null || !Layout.isUnique(found.name) && ownFiles.replace(found.own)) {
            return new Source(found.own, found.name, null);
        }
        Counters.count(Counters.READ_FROM_BASE);
        Path place = entry.place(found.own, getConf().get(ROOT));
        // guard: replaced-files-are-read
        if (Layout.isReplaceable(found.name)) {
            Replaced.check(inner, path, place, entry, found.base.epoch());
        }
        return new Source(place, found.name, entry);
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        Source source = source(path);
        LocalCopies local = copiesOf(path, source.place());
        try {
            return local == null ? inherited.open(source, bufferSize)
                : local.open(own(path), source.place(), bufferSize, () -> inherited.open(source, bufferSize));
        } catch (FileNotFoundException e) {
            throw missing(path, source.place(), e);
        }
    }

    /** The copies on this host of a file that may have one; null for other files, and when they are off. */
    private LocalCopies copiesOf(Path path, Path source) throws IOException {
        if (copies == null || !LocalCopies.has(source) || !LocalCopies.has(own(path))) {
            return null;
        }
        copies.settle(own(path), find(path, false).base, getConf().get(ROOT));
        return copies;
    }

    /** What Spark writes, which is written to the local disk as well. */
    Publication copied(Publication primary, Path path) throws IOException {
        LocalCopies local = copiesOf(path, own(path));
        return local == null ? primary : local.copied(primary, own(path));
    }

    private FileNotFoundException missing(Path path, Path source, FileNotFoundException cause) throws IOException {
        Found found = find(path, false);
        if (found.own.equals(source)) {
            return cause;
        }
        FileNotFoundException error = new FileNotFoundException(
            path + " is gone: the base of epoch " + found.base.epoch() + " names " + source);
        error.initCause(cause);
        return error;
    }

    @Override
    public void copyToLocalFile(boolean deleteSource, Path path, Path local) throws IOException {
        copyToLocalFile(deleteSource, path, local, false);
    }

    @Override
    public void copyToLocalFile(boolean deleteSource, Path path, Path local, boolean raw) throws IOException {
        if (deleteSource) {
            throw new UnsupportedOperationException("a file of a checkpoint is copied, not moved: " + path);
        }
        Source source = source(path);
        LocalCopies held = copiesOf(path, source.place());
        try {
            if (held == null) {
                inherited.copy(source, local, raw);
            } else {
                held.copyTo(own(path), source.place(), local, () -> inherited.copy(source, local, raw));
            }
        } catch (FileNotFoundException e) {
            throw missing(path, source.place(), e);
        }
    }

    @Override
    public void copyFromLocalFile(boolean deleteSource, boolean overwrite, Path local, Path path) throws IOException {
        Counters.count(Counters.WRITE);
        Found found = find(path, false);
        refuseNamed(path, found, overwrite);
        forget(path);
        if (ownFiles.canUpload(found.name, local, deleteSource)) {
            ownFiles.upload(local, found.own);
        } else {
            inner.copyFromLocalFile(deleteSource, overwrite, local, found.own);
        }
        LocalCopies held = copiesOf(path, found.own);
        if (held != null && !deleteSource) {
            held.keep(local, found.own);
        }
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        Found found = find(path, true);
        Base.Entry entry = found.entry();
        if (entry != null && (Layout.isUnique(found.name) || !ownFiles.replace(found.own))) {
            return entry.status(outer(found.own));
        }
        if (entry == null && found.isDirectory()) {
            return directory(outer(found.own));
        }
        Counters.count(Counters.STATUS);
        FileStatus status = inner.getFileStatus(found.own);
        status.setPath(outer(status.getPath()));
        return status;
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        Counters.count(Counters.LIST);
        Found found = find(path, true);
        Map<String, FileStatus> all = new TreeMap<>();
        for (String child : found.base.children(found.name)) {
            FileStatus status = ofBase(found, child);
            if (status != null) {
                all.put(child, status);
            }
        }
        for (FileStatus status : ownFiles.list(found.own, found.isDirectory(), Layout.isLogDirectory(found.name))) {
            status.setPath(outer(status.getPath()));
            all.put(status.getPath().getName(), status);
        }
        all.remove(Base.FILE);
        return all.values().toArray(new FileStatus[0]);
    }

    private FileStatus ofBase(Found directory, String child) {
        String name = directory.child(child);
        Base.Entry entry = directory.base.file(name);
        // Not by parent and child: a name with a colon would be taken for a URI.
        Path path = new Path(uri.getScheme(), uri.getAuthority(), directory.own.toUri().getPath() + "/" + child);
        if (entry != null) {
            return entry.status(path);
        }
        return directory.base.isDirectory(name) ? directory(path) : null;
    }

    private static FileStatus directory(Path path) {
        return new FileStatus(0, true, 1, 0, 0, path);
    }

    /** Refuses an exclusive create of what the base names, under either name of its batch. */
    void refuseNamed(Path path) throws IOException {
        refuseNamed(path, find(path, false), false);
    }

    private static void refuseNamed(Path path, Found found, boolean overwrite) throws IOException {
        if (overwrite) {
            return;
        }
        String sibling = Layout.sibling(found.name);
        if (found.entry() != null || sibling != null && found.base.file(sibling) != null) {
            throw new FileAlreadyExistsException(path + " is named by the base of epoch " + found.base.epoch());
        }
    }

    @Override
    public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int bufferSize,
            short replication, long blockSize, Progressable progress) throws IOException {
        Counters.count(Counters.WRITE);
        Found found = find(path, false);
        refuseNamed(path, found, overwrite);
        forget(path);
        return inner.create(found.own, permission, overwrite, bufferSize, replication, blockSize, progress);
    }

    @Override
    public FSDataOutputStream createNonRecursive(Path path, FsPermission permission, EnumSet<CreateFlag> flags,
            int bufferSize, short replication, long blockSize, Progressable progress) throws IOException {
        Counters.count(Counters.WRITE);
        Found found = find(path, false);
        refuseNamed(path, found, flags.contains(CreateFlag.OVERWRITE));
        forget(path);
        return inner.createNonRecursive(found.own, permission, flags, bufferSize, replication, blockSize, progress);
    }

    @Override
    public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
        throw new UnsupportedOperationException("files of a checkpoint are never appended to: " + path);
    }

    @Override
    public boolean rename(Path source, Path target) throws IOException {
        forget(source);
        forget(target);
        return inner.rename(own(source), own(target));
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        Found found = find(path, true);
        // A store without directories needs none for its files, and the base shows this one.
        return !ownFiles.needDirectories() && found.isDirectory() || inner.mkdirs(found.own, permission);
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        Path own = own(path);
        Layout.Place place = Layout.place(own.toUri().getPath());
        // guard: spark-deletes-what-bases-name
        if (collected && (place == null ? recursive : place.isCollected())) {
            Counters.count(Counters.DELETE_LEFT);
            return true;
        }
        Counters.count(Counters.DELETE);
        forget(path);
        boolean hidden = place != null && base(place.root()).hide(place.name());
        return inner.delete(own, recursive) | hidden;
    }

    @Override
    public URI getUri() {
        return uri;
    }

    @Override
    public String getScheme() {
        return uri.getScheme();
    }

    /** None of its own: what collects delegation tokens then asks the other file system. */
    @Override
    public String getCanonicalServiceName() {
        return null;
    }

    @Override
    public FileSystem[] getChildFileSystems() {
        return new FileSystem[] {inner};
    }

    @Override
    public short getDefaultReplication(Path path) {
        return inner.getDefaultReplication(own(path));
    }

    @Override
    public long getDefaultBlockSize(Path path) {
        return inner.getDefaultBlockSize(own(path));
    }

    @Override
    public FsStatus getStatus(Path path) throws IOException {
        return inner.getStatus(path == null ? null : own(path));
    }

    @Override
    public void setWorkingDirectory(Path path) {
        working = path;
    }

    @Override
    public Path getWorkingDirectory() {
        return working;
    }
}
