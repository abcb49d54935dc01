package org.apache.hadoop.conf;

public class Configuration {
    public String get(String name) {
        throw new UnsupportedOperationException();
    }

    public String get(String name, String defaultValue) {
        throw new UnsupportedOperationException();
    }
}
