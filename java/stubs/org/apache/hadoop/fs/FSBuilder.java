package org.apache.hadoop.fs;

public interface FSBuilder<S, B extends FSBuilder<S, B>> {
    B opt(String key, String value);
}
