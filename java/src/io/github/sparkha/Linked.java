package io.github.sparkha;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.UUID;
import org.apache.hadoop.fs.FileAlreadyExistsException;

/**
 * A file on a local or mounted file system: written under a hidden name, then linked to its name.
 *
 * <p>A link fails when the name exists. A rename of Java or Hadoop looks first and replaces then.
 */
final class Linked extends Publication {
    private final Path hidden;
    private final Path path;
    private final boolean overwrite;
    private final OutputStream out;

    private Linked(Path hidden, Path path, boolean overwrite, OutputStream out) {
        super(out);
        this.hidden = hidden;
        this.path = path;
        this.overwrite = overwrite;
        this.out = out;
    }

    static Linked begin(org.apache.hadoop.fs.Path file, boolean overwrite) throws IOException {
        Path path = Path.of(file.toUri().getPath());
        Files.createDirectories(path.getParent());
        Path hidden = path.resolveSibling("." + path.getFileName() + "." + UUID.randomUUID() + ".tmp");
        return new Linked(hidden, path, overwrite, Files.newOutputStream(hidden, StandardOpenOption.CREATE_NEW));
    }

    @Override
    void publish() throws IOException {
        try {
            out.close();
            if (overwrite) {
                // Hadoop's checksum of an earlier file of this name would refuse the new one.
                Files.deleteIfExists(path.resolveSibling("." + path.getFileName() + ".crc"));
                Files.move(hidden, path, StandardCopyOption.ATOMIC_MOVE);
            } else {
                link();
            }
        } finally {
            Files.deleteIfExists(hidden);
        }
    }

    private void link() throws IOException {
        try {
            // guard: link-replaces-what-is-there
            Files.createLink(path, hidden);
        } catch (java.nio.file.FileAlreadyExistsException e) {
            Counters.count(Counters.WRITE_LOST);
            FileAlreadyExistsException lost = new FileAlreadyExistsException(path + " was created by another writer");
            lost.initCause(e);
            throw lost;
        }
    }

    @Override
    void abort() {
        try {
            out.close();
            Files.deleteIfExists(hidden);
        } catch (IOException e) {
            // Spark and every verifier ignore hidden names.
        }
    }
}
