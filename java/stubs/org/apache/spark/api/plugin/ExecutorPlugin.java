package org.apache.spark.api.plugin;

import java.util.Map;

public interface ExecutorPlugin {
    default void init(PluginContext context, Map<String, String> extraConf) {
        throw new UnsupportedOperationException();
    }

    default void onTaskSucceeded() {
        throw new UnsupportedOperationException();
    }
}
