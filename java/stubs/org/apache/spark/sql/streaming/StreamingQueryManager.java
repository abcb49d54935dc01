package org.apache.spark.sql.streaming;

public abstract class StreamingQueryManager {
    public abstract void addListener(StreamingQueryListener listener);
}
