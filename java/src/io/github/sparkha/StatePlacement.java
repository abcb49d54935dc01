package io.github.sparkha;

import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.execution.streaming.state.StateStoreCoordinatorRef;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryManager;
import scala.collection.immutable.Nil$;

/**
 * Tells Spark, before the first batch of a query, which executors have copies of its state.
 *
 * <p>Spark prefers for a task the executor that has reported the state of its partition under this run of the query. A
 * new driver knows none. Its state store coordinator is told of those whose hosts have copies, as if they had had the
 * partitions under this driver. A partition that an executor has reported itself is left alone.
 */
public final class StatePlacement extends StreamingQueryListener {
    private static final long serialVersionUID = 1;
    private static final String ONLY_STORE = "default";

    /** By name: a query whose last batches are replayed starts more than once. */
    private static final Map<String, Query> EXPECTED = new ConcurrentHashMap<>();
    private static final Map<UUID, Query> STARTED = new ConcurrentHashMap<>();
    private static final Set<StreamingQueryManager> OBSERVED = Collections.newSetFromMap(new WeakHashMap<>());

    /** A query that starts, or has started and has not finished a batch. */
    private record Query(String location, int partitions) {
    }

    private StatePlacement() {
    }

    /**
     * Notes a query that is about to be started.
     *
     * @param manager of its session
     * @param name of the query
     * @param location the query's directory, as Spark sees it
     * @param partitions of each of its operators, as far as the conf says it
     */
    public static synchronized void expect(StreamingQueryManager manager, String name, String location, int partitions) {
        EXPECTED.put(name, new Query(location, partitions));
        if (OBSERVED.add(manager)) {
            manager.addListener(new StatePlacement());
        }
    }

    /** Called by Spark before the first batch, in the thread that will run it. */
    @Override
    public void onQueryStarted(QueryStartedEvent event) {
        Query query = event.name() == null ? null : EXPECTED.get(event.name());
        if (query != null) {
            STARTED.put(event.runId(), query);
            placeAll();
        }
    }

    @Override
    public void onQueryProgress(QueryProgressEvent event) {
        STARTED.remove(event.progress().runId());
    }

    @Override
    public void onQueryTerminated(QueryTerminatedEvent event) {
        STARTED.remove(event.runId());
    }

    /** Places the partitions of all queries that wait for their first batch; never throws. */
    static void placeAll() {
        STARTED.forEach((run, query) -> {
            try {
                place(run, query);
            } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
                Counters.count(Counters.COPY_ERROR); // Spark places its tasks as it would without copies
            }
        });
    }

    private static synchronized void place(UUID run, Query query) throws ReflectiveOperationException {
        StateStoreCoordinatorRef coordinator = StateStoreCoordinatorRef.forExecutor(SparkEnv.get());
        Method report = Stream.of(StateStoreCoordinatorRef.class.getMethods())
            .filter(method -> method.getName().equals("reportActiveInstance")).findFirst().orElseThrow(); // two types of result
        String root = new Path(new Path(query.location), "state").toString();
        for (Map.Entry<HeldPartitions.Partition, HeldPartitions.Executor> each
            : HeldPartitions.assign(query.location, query.partitions).entrySet()) {
            HeldPartitions.Partition partition = each.getKey();
            boolean isNew = false;
            for (String store : partition.stores()) {
                StateStoreProviderId id = new StateStoreProviderId(new StateStoreId(root, partition.operatorNumber(),
                    partition.number(), store.isEmpty() ? ONLY_STORE : store), run);
                if (!coordinator.getLocation(id).isDefined()) {
                    report.invoke(coordinator, id, each.getValue().host(), each.getValue().id(), Nil$.MODULE$);
                    isNew = true;
                }
            }
            if (isNew) {
                HeldPartitions.notePlaced(query.location, partition);
            }
        }
    }
}
