package org.apache.hadoop.fs;

import java.io.DataInputStream;
import java.io.InputStream;

public class FSDataInputStream extends DataInputStream {
    public FSDataInputStream(InputStream in) {
        super(in);
    }
}
