package io.github.sparkha;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import scala.collection.immutable.Seq;

/** Brings to the driver which copies of state the executors' hosts have, and what tasks have read from where. */
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
        public Map<String, String> init(SparkContext context, PluginContext plugin) {
            HeldPartitions.begin(executor -> isAlive(context, executor));
            return Map.of();
        }

        /** Spark knows no executors of a local master, and all of a cluster. */
        private static boolean isAlive(SparkContext context, String executor) {
            Seq<String> known = context.getExecutorIds();
            return known.isEmpty() || known.contains(executor);
        }

        @Override
        public Object receive(Object message) {
            Map<String, String> said = new HashMap<>();
            ((Map<?, ?>) message).forEach((key, value) -> said.put((String) key, (String) value));
            String executor = said.remove(Sender.EXECUTOR);
            String host = said.remove(Sender.HOST);
            if (host == null) {
                StateReads.report(executor, said);
            } else {
                HeldPartitions.report(executor, host, said);
                StatePlacement.placeAll();
            }
            return null;
        }
    }

    /** In each executor, and in the driver of a local master. */
    private static final class Sender implements ExecutorPlugin {
        static final String EXECUTOR = "executor";
        /** Key of the reports that say which copies a host has. */
        static final String HOST = "host";
        private static final String HADOOP = "spark.hadoop.";
        private static final String DRIVER = "driver";
        /** Between two reports that differ in the cost of copies only. */
        private static final long COST_NANOS = TimeUnit.SECONDS.toNanos(10);

        private PluginContext context;
        private Map<String, String> sent = Map.of();
        private String sentCost = "";
        private long sentAt;
        private Map<String, Long> told;

        @Override
        public void init(PluginContext given, Map<String, String> conf) {
            context = given;
            if (given.executorID().equals(DRIVER)) {
                return; // of a local master, which has no other executor
            }
            try {
                CopiesFolder.named(given.conf().get(HADOOP + CopiesFolder.DIRECTORY, ""),
                    given.conf().get(HADOOP + CopiesFolder.MEGABYTES, CopiesFolder.MOST)).tell(this::tell);
            } catch (IOException | RuntimeException e) {
                Counters.count(Counters.COPY_ERROR);
            }
        }

        private synchronized void tell(Map<String, Long> versions) {
            if (versions.equals(told)) {
                return;
            }
            HashMap<String, String> now = new HashMap<>();
            versions.forEach((location, version) -> now.put(location, version.toString()));
            now.put(EXECUTOR, context.executorID());
            now.put(HOST, SparkEnv.get().blockManager().blockManagerId().host());
            told = send(now) ? versions : null;
        }

        private boolean send(HashMap<String, String> message) {
            try {
                context.send(message);
                return true;
            } catch (IOException | RuntimeException e) {
                return false;
            }
        }

        /** State is read before a task succeeds, so its figures reach the driver before the commit of its batch. */
        @Override
        public synchronized void onTaskSucceeded() {
            HashMap<String, String> now = StateReads.own();
            String cost = now.remove(StateReads.MADE);
            boolean isDue = !cost.equals(sentCost) && System.nanoTime() - sentAt > COST_NANOS;
            if (now.equals(sent) && !isDue) {
                return;
            }
            sent = new HashMap<>(now);
            sentCost = cost;
            sentAt = System.nanoTime();
            now.put(StateReads.MADE, cost);
            now.put(EXECUTOR, context.executorID());
            if (!send(now)) {
                sent = Map.of();
            }
        }
    }
}
