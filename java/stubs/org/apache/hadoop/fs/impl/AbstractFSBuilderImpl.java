package org.apache.hadoop.fs.impl;

import org.apache.hadoop.fs.FSBuilder;

public abstract class AbstractFSBuilderImpl<S, B extends FSBuilder<S, B>> implements FSBuilder<S, B> {
    public B opt(String key, String value) {
        throw new UnsupportedOperationException();
    }

    public B opt(String key, boolean value) {
        throw new UnsupportedOperationException();
    }

    public B must(String key, boolean value) {
        throw new UnsupportedOperationException();
    }
}
