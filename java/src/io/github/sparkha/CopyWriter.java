package io.github.sparkha;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32C;

/** A copy in the making, beside what is written or read: its errors end it and nothing else. */
final class CopyWriter {
    private final CopiesFolder folder;
    private final Copy copy;
    private final Path aside;
    private final CRC32C sum = new CRC32C();
    private OutputStream out;
    private long length;
    private long nanos;

    private CopyWriter(CopiesFolder folder, Copy copy) {
        this.folder = folder;
        this.copy = copy;
        this.aside = copy.aside();
    }

    /** Begins a copy, if one may be made now; does nothing later where not. */
    static CopyWriter begin(CopiesFolder folder, Copy copy) {
        CopyWriter writer = new CopyWriter(folder, copy);
        if (folder.admits(0, copy.file().getParent())) {
            writer.attempt(() -> {
                folder.makeAbove(copy.file());
                writer.out = Files.newOutputStream(writer.aside, StandardOpenOption.CREATE_NEW);
            });
        }
        return writer;
    }

    /** Something that may fail without a consequence for the batch. */
    private interface Attempt {
        void run() throws IOException;
    }

    private boolean attempt(Attempt what) {
        long began = System.nanoTime();
        try {
            what.run();
            return true;
        } catch (IOException | RuntimeException e) {
            folder.failed(e);
            discard();
            return false;
        } finally {
            nanos += System.nanoTime() - began;
        }
    }

    void write(byte[] bytes, int offset, int count) {
        if (out != null) {
            attempt(() -> {
                out.write(bytes, offset, count);
                sum.update(bytes, offset, count);
                length += count;
            });
        }
    }

    /** Makes it a copy: the primary is there, and has these bytes. Returns whether there is one now. */
    boolean publish() {
        boolean made = out != null && folder.admits(length, copy.file().getParent()) && attempt(() -> {
            out.close();
            copy.take(aside, length, sum.getValue());
        });
        if (made) {
            out = null;
            count(folder, length, nanos);
        }
        discard();
        return made;
    }

    static void count(CopiesFolder folder, long length, long nanos) {
        folder.added(length);
        Counters.count(Counters.COPY_MADE);
        Counters.add(Counters.COPY_MADE_BYTES, length);
        Counters.add(Counters.COPY_MICROSECONDS, TimeUnit.NANOSECONDS.toMicros(nanos));
    }

    /** Gives it up. */
    void discard() {
        OutputStream given = out;
        out = null;
        if (given != null) {
            try {
                given.close();
            } catch (IOException e) {
                // What could not be written is removed.
            }
            try {
                Files.deleteIfExists(aside);
            } catch (IOException e) {
                folder.failed(e);
            }
        }
    }

    boolean isOpen() {
        return out != null;
    }
}
