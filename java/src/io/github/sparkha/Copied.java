package io.github.sparkha;

import java.io.IOException;

/** A state file that gets a copy on the local disk, once the store has accepted it. */
final class Copied extends Publication {
    private final Publication primary;
    private final CopyWriter copy;
    private final Runnable after;

    /**
     * Writes a copy beside a primary.
     *
     * @param after what follows a copy
     */
    Copied(Publication primary, CopyWriter copy, Runnable after) {
        super(primary);
        this.primary = primary;
        this.copy = copy;
        this.after = after;
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
        super.write(bytes, offset, length);
        copy.write(bytes, offset, length);
    }

    @Override
    void publish() throws IOException {
        try {
            // guard: copies-before-the-primary
            primary.publishWhole();
        } catch (IOException e) {
            copy.discard();
            throw e;
        }
        if (copy.publish()) {
            after.run();
        }
    }

    @Override
    void abort() {
        primary.abort();
        copy.discard();
    }
}
