package io.github.sparkha;

import java.io.IOException;
import java.io.OutputStream;

/**
 * A file that becomes visible whole, under its name, or not at all.
 *
 * <p>Exactly one of {@link #publish} and {@link #abort} ends it. A failed write spoils it: what was written is no
 * whole file any more, whatever is called next.
 */
abstract class Publication extends OutputStream {
    private final OutputStream out;
    private IOException spoiled;

    Publication(OutputStream out) {
        this.out = out;
    }

    /**
     * Makes it visible.
     *
     * @throws org.apache.hadoop.fs.FileAlreadyExistsException it was to be exclusive, and another writer was faster
     * @throws IOException it is not known to be visible: never take it for written
     */
    abstract void publish() throws IOException;

    /** Gives it up; never throws, since it is called where something has failed already. */
    abstract void abort();

    /** Publishes what was written without an error, else gives it up. */
    final void publishWhole() throws IOException {
        if (spoiled != null) {
            abort();
            throw new IOException("a write failed before, so the file is not whole", spoiled);
        }
        publish();
    }

    @Override
    public void write(int b) throws IOException {
        write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
        try {
            out.write(bytes, offset, length);
        } catch (IOException e) {
            spoiled = e;
            throw e;
        }
    }

    @Override
    public void flush() throws IOException {
        try {
            out.flush();
        } catch (IOException e) {
            spoiled = e;
            throw e;
        }
    }
}
