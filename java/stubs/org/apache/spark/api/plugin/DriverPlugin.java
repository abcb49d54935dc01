package org.apache.spark.api.plugin;

import java.util.Map;
import org.apache.spark.SparkContext;

public interface DriverPlugin {
    default Map<String, String> init(SparkContext context, PluginContext plugin) {
        throw new UnsupportedOperationException();
    }

    default Object receive(Object message) throws Exception {
        throw new UnsupportedOperationException();
    }
}
