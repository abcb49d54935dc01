package org.apache.spark.api.plugin;

import java.io.IOException;

public interface PluginContext {
    String executorID();

    void send(Object message) throws IOException;
}
