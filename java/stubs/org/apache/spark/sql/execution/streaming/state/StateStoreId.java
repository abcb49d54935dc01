package org.apache.spark.sql.execution.streaming.state;

public class StateStoreId {
    public StateStoreId(String root, long operator, int partition, String store) {
        throw new UnsupportedOperationException();
    }
}
