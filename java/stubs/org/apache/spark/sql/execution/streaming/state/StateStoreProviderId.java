package org.apache.spark.sql.execution.streaming.state;

import java.util.UUID;

public class StateStoreProviderId {
    public StateStoreProviderId(StateStoreId store, UUID run) {
        throw new UnsupportedOperationException();
    }
}
