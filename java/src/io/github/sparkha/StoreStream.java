package io.github.sparkha;

import java.io.IOException;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;

/**
 * A state file as the store sends it. Read from its beginning to its end it becomes a copy on the local disk.
 *
 * <p>Errors are those of the store. Readers of a zip stop before its directory, so a short rest is read at the close.
 */
final class StoreStream extends FSInputStream {
    private static final int REST = 1 << 20;

    private final FSDataInputStream in;
    private final String query;
    private final CopyWriter copy;
    private boolean ended;
    private boolean closed;

    StoreStream(FSDataInputStream in, String query, CopyWriter copy) {
        this.in = in;
        this.query = query;
        this.copy = copy;
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
        long began = System.nanoTime();
        int count = in.read(bytes, offset, length);
        if (count > 0) {
            StateReads.store(query, 0, count, System.nanoTime() - began);
            copy.write(bytes, offset, count);
        }
        ended |= count < 0;
        return count;
    }

    @Override
    public void seek(long position) throws IOException {
        if (position != in.getPos()) {
            copy.discard();
        }
        in.seek(position);
    }

    @Override
    public long getPos() throws IOException {
        return in.getPos();
    }

    @Override
    public boolean seekToNewSource(long position) throws IOException {
        return in.seekToNewSource(position);
    }

    @Override
    public void close() throws IOException {
        if (!closed) {
            closed = true;
            readRest();
            copy.discard();
            in.close();
        }
    }

    private void readRest() {
        byte[] rest = new byte[1 << 13];
        try {
            for (int read = 0; copy.isOpen() && !ended && read < REST;) {
                read += Math.max(0, read(rest, 0, rest.length));
            }
        } catch (IOException e) {
            copy.discard();
        }
        if (ended && copy.isOpen()) {
            copy.publish();
        }
    }
}
