package io.github.sparkha;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import org.apache.hadoop.fs.Path;

/**
 * Which executors' hosts have copies of which partitions of state, and which executor should get which partition.
 *
 * <p>The hosts say it themselves, so a lost disk and removed copies are known, and nothing has to be recorded.
 */
public final class HeldPartitions {
    private static final Map<String, Host> HOSTS = new ConcurrentHashMap<>();
    private static final Map<String, Set<String>> PLACED = new ConcurrentHashMap<>();
    private static volatile Predicate<String> alive = executor -> true;

    /** The host of an executor: location of each partition that has copies there, without scheme, with its version. */
    private record Host(String name, Map<String, String> versions) {
    }

    /** An executor, as Spark names it. */
    public record Executor(String id, String host) {
    }

    /** A partition of an operator's state: {@code state/<operator>/<partition>}, and its stores; "" is the only one. */
    public record Partition(String name, List<String> stores) {
        String operator() {
            return name.substring(0, name.lastIndexOf('/'));
        }

        long operatorNumber() {
            return Long.parseLong(operator().substring(operator().lastIndexOf('/') + 1));
        }

        int number() {
            return Integer.parseInt(name.substring(name.lastIndexOf('/') + 1));
        }
    }

    /** What is known of a partition: its newest version, and the executors whose hosts have that. */
    private static final class Holders {
        private final List<String> stores = new ArrayList<>();
        private final List<String> executors = new ArrayList<>();
        private long version = -1;

        void add(String store, long held, String executor) {
            if (!stores.contains(store)) {
                stores.add(store);
            }
            if (held > version) {
                version = held;
                executors.clear();
            }
            if (held == version && !executors.contains(executor)) {
                executors.add(executor);
            }
        }
    }

    private HeldPartitions() {
    }

    /** Begins with no reports, in a new context. */
    static void begin(Predicate<String> isAlive) {
        HOSTS.clear();
        alive = isAlive;
    }

    /**
     * Notes what an executor says; each report replaces the one before.
     *
     * @param host of the executor, as Spark names it
     * @param versions location of each partition that has copies on the host, without scheme -> newest version
     */
    public static void report(String executor, String host, Map<String, String> versions) {
        HOSTS.put(executor, new Host(host, versions));
    }

    /**
     * Which executor should get each partition of a query.
     *
     * <p>A host with the newest copies gets it, but no executor more than one and a half times its share: what is placed
     * once stays there, and other executors would be idle. The rest is Spark's choice.
     *
     * @param location the query's directory, as Spark sees it; all epochs of its job count
     * @param partitions how many each operator has, if none of them has more copies
     */
    public static Map<Partition, Executor> assign(String location, int partitions) {
        Map<String, Host> hosts = new TreeMap<>(HOSTS);
        hosts.keySet().removeIf(executor -> !alive.test(executor));
        Map<String, Holders> held = holders(hosts, new Path(location));
        Map<String, Integer> counts = new HashMap<>();
        List<Partition> all = new ArrayList<>();
        held.forEach((name, of) -> all.add(new Partition(name, of.stores)));
        all.forEach(each -> counts.merge(each.operator(), each.number() + 1, Math::max));
        all.sort(Comparator.comparing(Partition::operator).thenComparing(Partition::number));
        Map<String, Integer> shares = new HashMap<>();
        Map<Partition, Executor> assigned = new HashMap<>();
        for (Partition each : all) {
            int most = -Math.floorDiv(-3 * Math.max(partitions, counts.get(each.operator())), 2 * hosts.size());
            held.get(each.name).executors.stream()
                .min(Comparator.comparing(executor -> shares.getOrDefault(each.operator() + " " + executor, 0)))
                .filter(executor -> shares.merge(each.operator() + " " + executor, 1, Integer::sum) <= most)
                .ifPresent(executor -> assigned.put(each, new Executor(executor, hosts.get(executor).name)));
        }
        return assigned;
    }

    static void notePlaced(String location, Partition partition) {
        PLACED.computeIfAbsent(new Path(location).toUri().getPath(), path -> ConcurrentHashMap.newKeySet())
            .add(partition.name);
    }

    /**
     * How many partitions of a query were returned to an executor whose host has copies of their state.
     *
     * @param path of the query's directory
     */
    static int placed(String path) {
        return PLACED.getOrDefault(path, Set.of()).size();
    }

    private static Map<String, Holders> holders(Map<String, Host> hosts, Path query) {
        String authority = query.toUri().getAuthority();
        String job = (authority == null ? "_" : authority) + query.getParent().getParent().toUri().getPath() + "/";
        Map<String, Holders> held = new HashMap<>();
        hosts.forEach((executor, host) -> host.versions.forEach((partition, version) -> {
            if (partition.startsWith(job)) {
                String[] names = partition.substring(job.length()).split("/"); // epoch, query, state, 0, 1, store
                if (names.length >= 5 && names[1].equals(query.getName())) {
                    held.computeIfAbsent(String.join("/", names[2], names[3], names[4]), name -> new Holders())
                        .add(names.length > 5 ? names[5] : "", Long.parseLong(version), executor);
                }
            }
        }));
        return held;
    }
}
