package io.github.sparkha;

import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Notices that a file is another one than the base has named.
 *
 * <p>State of format 1 and of the HDFS-backed provider has names without an id: an executor of an epoch that is over can
 * replace such a file long after the base was made, with another state of the same version.
 */
final class Replaced {
    private Replaced() {
    }

    static void check(FileSystem files, Path path, Path place, Base.Entry entry, String epoch) throws IOException {
        Counters.count(Counters.STATUS);
        FileStatus now;
        try {
            now = files.getFileStatus(place);
        } catch (FileNotFoundException e) {
            FileNotFoundException gone =
                new FileNotFoundException(path + " is gone: the base of epoch " + epoch + " names " + place);
            gone.initCause(e);
            throw gone;
        }
        String difference = difference(now, entry);
        if (difference != null) {
            throw new IOException(path + " was replaced since the base of epoch " + epoch + " was made: " + place + " has "
                + difference + ". Restore the job from a checkpoint of before that epoch");
        }
    }

    private static String difference(FileStatus now, Base.Entry entry) {
        if (now.getLen() != entry.length()) {
            return now.getLen() + " bytes instead of " + entry.length();
        }
        if (!entry.etag().isEmpty()) {
            String etag = now instanceof EtagSource source ? unquoted(source.getEtag()) : "";
            return etag.equals(entry.etag()) ? null : "ETag " + etag + " instead of " + entry.etag();
        }
        boolean other = entry.mtime() > 0 && now.getModificationTime() != entry.mtime();
        return other ? "time " + now.getModificationTime() + " instead of " + entry.mtime() : null;
    }

    private static String unquoted(String etag) {
        return etag == null ? "" : etag.replace("\"", "");
    }
}
