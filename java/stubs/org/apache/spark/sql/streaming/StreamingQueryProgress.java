package org.apache.spark.sql.streaming;

import java.util.UUID;

public class StreamingQueryProgress {
    public UUID runId() {
        throw new UnsupportedOperationException();
    }
}
