package org.apache.spark.storage;

public class BlockManager {
    public BlockManagerId blockManagerId() {
        throw new UnsupportedOperationException();
    }
}
