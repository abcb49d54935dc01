package io.github.sparkha;

import java.io.EOFException;
import java.io.IOException;
import org.apache.hadoop.fs.FSInputStream;

/** A file that was read whole. */
final class HeldBytes extends FSInputStream {
    private final byte[] content;
    private int position;

    HeldBytes(byte[] content) {
        this.content = content;
    }

    @Override
    public int read() {
        return position < content.length ? content[position++] & 0xff : -1;
    }

    @Override
    public int read(byte[] bytes, int offset, int length) {
        if (length == 0) {
            return 0;
        }
        int count = Math.min(length, content.length - position);
        if (count <= 0) {
            return -1;
        }
        System.arraycopy(content, position, bytes, offset, count);
        position += count;
        return count;
    }

    @Override
    public int available() {
        return content.length - position;
    }

    @Override
    public void seek(long target) throws IOException {
        if (target < 0 || target > content.length) {
            throw new EOFException("position " + target + " of " + content.length + " bytes");
        }
        position = (int) target;
    }

    @Override
    public long getPos() {
        return position;
    }

    @Override
    public boolean seekToNewSource(long target) {
        return false;
    }
}
