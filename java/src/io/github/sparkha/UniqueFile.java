package io.github.sparkha;

import java.io.IOException;
import java.nio.file.Files;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** A file with a name that no process writes twice, sent to S3 in one request: nothing can be there before. */
final class UniqueFile {
    /** Bytes up to which it is sent so: S3A writes a stream to the local disk first, but a file of it directly. */
    private static final long SMALL = 8 << 20;

    private UniqueFile() {
    }

    static boolean isSmall(Path local) throws IOException {
        return Files.size(onDisk(local)) <= SMALL;
    }

    static void upload(FileSystem files, Path local, Path target) throws IOException {
        FSDataOutputStreamBuilder<?, ?> builder = files.createFile(target);
        builder.recursive();
        builder.overwrite(true);
        builder.opt("fs.s3a.create.performance", true);
        FSDataOutputStream out = builder.build();
        try {
            Files.copy(onDisk(local), out);
        } catch (IOException | RuntimeException e) {
            out.abort(); // a close would publish a part of it
            throw e;
        }
        out.close();
    }

    private static java.nio.file.Path onDisk(Path local) {
        return java.nio.file.Path.of(local.toUri().getPath());
    }
}
