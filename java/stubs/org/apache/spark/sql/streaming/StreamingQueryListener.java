package org.apache.spark.sql.streaming;

import java.io.Serializable;
import java.util.UUID;

public abstract class StreamingQueryListener implements Serializable {
    public abstract void onQueryStarted(QueryStartedEvent event);

    public abstract void onQueryProgress(QueryProgressEvent event);

    public abstract void onQueryTerminated(QueryTerminatedEvent event);

    public static class QueryStartedEvent {
        public UUID runId() {
            throw new UnsupportedOperationException();
        }

        public String name() {
            throw new UnsupportedOperationException();
        }
    }

    public static class QueryProgressEvent {
        public StreamingQueryProgress progress() {
            throw new UnsupportedOperationException();
        }
    }

    public static class QueryTerminatedEvent {
        public UUID runId() {
            throw new UnsupportedOperationException();
        }
    }
}
