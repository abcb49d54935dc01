package org.apache.spark.storage;

public class BlockManagerId {
    public String host() {
        throw new UnsupportedOperationException();
    }
}
