package io.github.sparkha;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/** Brings to the driver what the executors have read of the state, and from where. */
public final class CopiesPlugin implements SparkPlugin {
    /** Called by Spark. */
    public CopiesPlugin() {
    }

    @Override
    public DriverPlugin driverPlugin() {
        return new Receiver();
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return new Sender();
    }

    /** In the driver. */
    private static final class Receiver implements DriverPlugin {
        @Override
        public Object receive(Object message) {
            Map<String, String> said = new HashMap<>();
            ((Map<?, ?>) message).forEach((key, value) -> said.put((String) key, (String) value));
            StateReads.report(said.remove(Sender.EXECUTOR), said);
            return null;
        }
    }

    /** In each executor, and in the driver of a local master. */
    private static final class Sender implements ExecutorPlugin {
        static final String EXECUTOR = "executor";

        private PluginContext context;
        private Map<String, String> sent = Map.of();

        @Override
        public void init(PluginContext given, Map<String, String> conf) {
            context = given;
        }

        /** State is read before a task succeeds, so its figures reach the driver before the commit of its batch. */
        @Override
        public synchronized void onTaskSucceeded() {
            HashMap<String, String> now = StateReads.own();
            if (!now.equals(sent)) {
                sent = new HashMap<>(now);
                now.put(EXECUTOR, context.executorID());
                try {
                    context.send(now);
                } catch (IOException e) {
                    sent = Map.of();
                }
            }
        }
    }
}
