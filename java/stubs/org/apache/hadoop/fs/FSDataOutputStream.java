package org.apache.hadoop.fs;

import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;

public class FSDataOutputStream extends DataOutputStream implements Abortable {
    public FSDataOutputStream(OutputStream out) {
        super(out);
    }

    @Override
    public void close() throws IOException {
        throw new UnsupportedOperationException();
    }

    @Override
    public AbortableResult abort() {
        throw new UnsupportedOperationException();
    }
}
