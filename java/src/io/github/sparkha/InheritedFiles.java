package io.github.sparkha;

import java.io.EOFException;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Path;

/**
 * Reads of files that a base names. On S3, one request reads an object whose length is known, and none looks at it before.
 *
 * <p>Small ones are read at once, so that their absence is an error of the call that opens them.
 */
final class InheritedFiles {
    private static final String LENGTH = "fs.option.openfile.length";
    private static final String POLICY = "fs.option.openfile.read.policy";
    private static final String WHOLE = "whole-file";
    private static final long SMALL = 1 << 20;
    private static final int HELD_BYTES = 16 << 10;
    private static final int HELD_FILES = 1000;

    private final FileSystem files;
    private final Configuration conf;
    /** Small files that Spark reads several times: entries of logs, metadata, schemas. They never change. */
    private final Map<Path, byte[]> held = new ConcurrentHashMap<>();

    InheritedFiles(FileSystem files, Configuration conf) {
        this.files = files;
        this.conf = conf;
    }

    /**
     * The bytes of a file.
     *
     * @param name below the query's directory
     * @param entry of the base; null for an own file
     */
    record Source(Path place, String name, Base.Entry entry) {
        boolean isKnown() {
            return entry != null && place.toUri().getScheme().equals("s3a");
        }

        boolean isHeld() {
            return !Layout.isUnique(name) && !Layout.isReplaceable(name) && entry.length() <= HELD_BYTES;
        }
    }

    FSDataInputStream open(Source source, int bufferSize) throws IOException {
        if (!source.isKnown()) {
            return files.open(source.place, bufferSize);
        }
        if (!source.isHeld()) {
            return source.entry.length() > SMALL ? begin(source)
                : new FSDataInputStream(new HeldBytes(read(source)));
        }
        byte[] content = held.get(source.place);
        if (content == null) {
            content = read(source);
            if (held.size() < HELD_FILES) {
                held.put(source.place, content);
            }
        }
        return new FSDataInputStream(new HeldBytes(content));
    }

    void copy(Source source, Path local, boolean raw) throws IOException {
        if (!source.isKnown()) {
            files.copyToLocalFile(false, source.place, local, raw);
            return;
        }
        FileSystem disk = raw ? FileSystem.getLocal(conf).getRaw() : FileSystem.getLocal(conf);
        try (FSDataInputStream in = begin(source); FSDataOutputStream out = disk.create(local, true)) {
            check(source, in.transferTo(out));
        }
    }

    private byte[] read(Source source) throws IOException {
        try (FSDataInputStream in = begin(source)) {
            byte[] content = in.readNBytes((int) source.entry.length());
            check(source, content.length);
            return content;
        }
    }

    private static void check(Source source, long read) throws IOException {
        if (read != source.entry.length()) {
            throw new EOFException(source.place + " has " + read + " bytes instead of " + source.entry.length());
        }
    }

    private FSDataInputStream begin(Source source) throws IOException {
        Base.Entry entry = source.entry;
        FutureDataInputStreamBuilder builder = files.openFile(source.place).opt(POLICY, WHOLE);
        if (entry.etag().isEmpty()) {
            builder.opt(LENGTH, Long.toString(entry.length()));
        } else {
            // The streams of Hadoop 3.5 look at an object unless its ETag is known, too.
            builder.withFileStatus(KnownStatus.of(source.place, entry));
        }
        try {
            return builder.build().get();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException(source.place + " was not opened", e);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof IOException cause ? cause : new IOException(source.place + " was not opened", e);
        }
    }
}
