package io.github.sparkha;

import java.io.EOFException;
import java.io.IOException;
import java.util.concurrent.ExecutionException;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileStatus;

/**
 * An object on S3 whose length is known: one request reads it, and none looks at it before.
 *
 * <p>Small ones are read at once, so that their absence is an error of the call that opens them.
 */
final class KnownFile {
    private static final String LENGTH = "fs.option.openfile.length";
    private static final String POLICY = "fs.option.openfile.read.policy";
    private static final String WHOLE = "whole-file";
    private static final long SMALL = 1 << 20;
    private static final long BLOCK = 32 << 20;

    private KnownFile() {
    }

    static FSDataInputStream open(FileSystem files, Path place, Base.Entry entry) throws IOException {
        return entry.length() > SMALL ? begin(files, place, entry)
            : new FSDataInputStream(new HeldBytes(read(files, place, entry)));
    }

    static byte[] read(FileSystem files, Path place, Base.Entry entry) throws IOException {
        try (FSDataInputStream in = begin(files, place, entry)) {
            byte[] content = in.readNBytes((int) entry.length());
            check(place, content.length, entry.length());
            return content;
        }
    }

    static void copy(FileSystem files, Path place, Base.Entry entry, FileSystem disk, Path local) throws IOException {
        try (FSDataInputStream in = begin(files, place, entry); FSDataOutputStream out = disk.create(local, true)) {
            check(place, in.transferTo(out), entry.length());
        }
    }

    private static void check(Path place, long read, long length) throws IOException {
        if (read != length) {
            throw new EOFException(place + " has " + read + " bytes instead of " + length);
        }
    }

    private static FSDataInputStream begin(FileSystem files, Path place, Base.Entry entry) throws IOException {
        FutureDataInputStreamBuilder builder = files.openFile(place).opt(POLICY, WHOLE);
        if (entry.etag().isEmpty()) {
            builder.opt(LENGTH, Long.toString(entry.length()));
        } else {
            // The streams of Hadoop 3.5 look at an object unless its ETag is known, too.
            builder.withFileStatus(new S3AFileStatus(
                entry.length(), entry.mtime(), place, BLOCK, "", '"' + entry.etag() + '"', null));
        }
        try {
            return builder.build().get();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException(place + " was not opened", e);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof IOException cause ? cause : new IOException(place + " was not opened", e);
        }
    }
}
