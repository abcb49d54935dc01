package org.apache.spark.api.plugin;

import java.io.IOException;
import org.apache.spark.SparkConf;

public interface PluginContext {
    SparkConf conf();

    String executorID();

    void send(Object message) throws IOException;
}
