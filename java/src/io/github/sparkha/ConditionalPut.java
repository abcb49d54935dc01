package io.github.sparkha;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * An object on S3: one PUT when it is closed. An exclusive one asks the store for the condition (If-None-Match).
 *
 * <p>Neither of Spark's managers does: both look first and write later, so that of two writers both believe to have won.
 */
final class ConditionalPut extends Publication {
    /** Conf key: epoch, submission and process, separated by slashes. */
    static final String WRITER = "fs.ha.writer";

    private static final String METADATA = "spark-ha-writer";
    private static final Pattern REFUSED = Pattern.compile(
        "\\b412\\b|\\b409\\b|PreconditionFailed|ConditionalRequestConflict|At least one of the pre-conditions");

    /** A store may refuse a writer before it shows what the other one wrote: looks, and milliseconds between two. */
    private static final int LOOKS = 20;
    private static final long PAUSE = 50;

    private final FileSystem files;
    private final Path path;
    private final boolean exclusive;
    private final String writer;
    private final FSDataOutputStream out;

    private ConditionalPut(FileSystem files, Path path, boolean exclusive, String writer, FSDataOutputStream out) {
        super(out);
        this.files = files;
        this.path = path;
        this.exclusive = exclusive;
        this.writer = writer;
        this.out = out;
    }

    static ConditionalPut begin(FileSystem files, Path path, boolean overwrite, Configuration conf) throws IOException {
        // One process may write a name twice (a query that is started again), so the process alone is no owner.
        String writer = conf.get(WRITER, "0/none/none") + "/" + UUID.randomUUID();
        FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path);
        builder.recursive();
        builder.overwrite(overwrite);
        // No look before the PUT: for an exclusive one the store decides, another one replaces what is there.
        builder.opt("fs.s3a.create.performance", true);
        if (!overwrite) {
            // guard: put-without-a-condition
            builder.must("fs.option.create.conditional.overwrite", true);
            builder.opt("fs.s3a.create.header." + METADATA, writer);
        }
        return new ConditionalPut(files, path, !overwrite, writer, (FSDataOutputStream) builder.build());
    }

    @Override
    void publish() throws IOException {
        try {
            out.close();
        } catch (IOException e) {
            if (!exclusive || !isRefusal(e)) {
                throw e;
            }
            decide(e);
        }
    }

    /** A refusal may be the answer to a repeated request, the first of which was granted and its reply lost. */
    private void decide(IOException refusal) throws IOException {
        String owner = owner(refusal);
        if (!writer.equals(owner)) {
            Counters.count(Counters.WRITE_LOST);
            FileAlreadyExistsException lost = new FileAlreadyExistsException(path + " was created by writer " + owner);
            lost.initCause(refusal);
            throw lost;
        }
        Counters.count(Counters.WRITE_OWNED);
    }

    private String owner(IOException refusal) throws IOException {
        for (int look = 1; ; look++) {
            try {
                byte[] value = files.getXAttr(path, "header." + METADATA);
                return value == null ? "unknown" : new String(value, StandardCharsets.UTF_8);
            } catch (FileNotFoundException e) {
                if (look == LOOKS) {
                    refusal.addSuppressed(e);
                    throw refusal;
                }
                pause(refusal);
            } catch (IOException e) {
                refusal.addSuppressed(e);
                throw refusal;
            }
        }
    }

    private static void pause(IOException refusal) throws IOException {
        try {
            Thread.sleep(PAUSE);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw refusal;
        }
    }

    private static boolean isRefusal(Throwable error) {
        for (Throwable e = error; e != null; e = e.getCause()) {
            boolean refused = e.getMessage() != null && REFUSED.matcher(e.getMessage()).find();
            if (e instanceof FileAlreadyExistsException || refused) {
                return true;
            }
        }
        return false;
    }

    @Override
    void abort() {
        out.abort();
    }
}
