package io.github.sparkha;

import java.io.IOException;
import java.net.URI;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.fs.Path;

/**
 * The lease of this JVM's leader: what plans or commits a batch is created only while it holds.
 *
 * <p>It is checked when a file is begun and again just before it becomes visible. Between the second check and the
 * request a process can still be frozen for any time: against that only the exclusive create and the fence help.
 */
public final class Gate {
    /** Who leads, where, and until when in milliseconds of uptime. */
    private record Lease(String job, long epoch, URI directory, AtomicLong deadline) {
    }

    /** An entry was refused because this JVM may not, or may no longer, create it. */
    public static final class LeaseLost extends IOException {
        private static final long serialVersionUID = 1L;

        LeaseLost(String message) {
            super(message);
        }
    }

    private static volatile Lease lease = null;
    private static volatile String closed = "no leader has opened it";

    private Gate() {
    }

    /**
     * Lets one leader's entries through from now on; closed until the first {@link #extend}.
     *
     * @param directory URI of the epoch's working directory, as Spark sees it: checkpoints elsewhere are refused
     */
    public static synchronized void bind(String job, long epoch, String directory) {
        lease = new Lease(job, epoch, new Path(directory).toUri(), new AtomicLong(Long.MIN_VALUE));
    }

    /**
     * Prolongs the lease; after {@link #close} it has no effect.
     *
     * @param deadline its end in milliseconds of /proc/uptime, counted from before ZooKeeper was asked
     */
    public static void extend(long deadline) {
        Lease held = lease;
        if (held != null) {
            // Two threads may prolong at a time: the later end was proven as well.
            held.deadline.accumulateAndGet(deadline, Math::max);
        }
    }

    /** Ends the lease of this JVM. */
    public static synchronized void close(String reason) {
        lease = null;
        closed = reason;
    }

    /** Milliseconds for which entries are still let through; 0 when it is closed. */
    public static long left() throws IOException {
        Lease held = lease;
        return held == null ? 0 : Math.max(0, remaining(held));
    }

    static void check(Path entry) throws IOException {
        Lease held = lease;
        // guard: gate-open-until-bound
        if (held == null) {
            throw refused(entry, "the gate is closed: " + closed);
        }
        // guard: gate-ignores-the-lease
        if (remaining(held) <= 0) {
            throw refused(entry, "the lease of epoch " + held.epoch + " of job " + held.job + " ran out");
        }
        // guard: gate-ignores-the-directory
        if (Layout.isLog(entry) && isElsewhere(entry.toUri(), held.directory)) {
            throw refused(entry, "epoch " + held.epoch + " of job " + held.job + " works in " + held.directory);
        }
    }

    private static long remaining(Lease held) throws IOException {
        long deadline = held.deadline.get();
        return deadline == Long.MIN_VALUE ? Long.MIN_VALUE : deadline - Uptime.millis();
    }

    /** Whether it is the log of another epoch; a query may keep a log on another file system, for a while. */
    private static boolean isElsewhere(URI entry, URI directory) {
        boolean below = Objects.equals(entry.getAuthority(), directory.getAuthority())
            && entry.getPath().startsWith(directory.getPath() + "/");
        return Objects.equals(entry.getScheme(), directory.getScheme()) && !below;
    }

    private static LeaseLost refused(Path entry, String reason) {
        Counters.count(Counters.GATE_REFUSED);
        return new LeaseLost("refused " + entry + ": " + reason);
    }
}
