package org.apache.spark.api.plugin;

public interface DriverPlugin {
    default Object receive(Object message) throws Exception {
        throw new UnsupportedOperationException();
    }
}
