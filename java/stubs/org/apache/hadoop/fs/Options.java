package org.apache.hadoop.fs;

public final class Options {
    private Options() {
    }

    public enum Rename {
        NONE, OVERWRITE
    }
}
