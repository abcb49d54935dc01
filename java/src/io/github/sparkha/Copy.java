package io.github.sparkha;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32C;

/**
 * One copy: a file under the name of its primary, and a note with its length, its checksum and that name.
 *
 * <p>The note comes first and the name last: a file without its note, or with the note of another, is no copy.
 */
record Copy(Path file) {
    private static final String NOTE = ".note";
    private static final String UNFINISHED = ".unfinished";
    /** Format of a note: another release may need to say more. */
    private static final Pattern CONTENT = Pattern.compile("1 (\\d{1,18}) ([0-9a-f]{1,8}) (.+)\n");
    private static final int LONGEST = 1024;
    private static final int BUFFER = 1 << 18;

    static boolean isNote(Path file) {
        return file.toString().endsWith(NOTE);
    }

    static boolean isUnfinished(Path file) {
        return file.toString().endsWith(UNFINISHED);
    }

    /** The name of the copy that a note, or a copy, belongs to. */
    static String ofNote(String name) {
        return name.endsWith(NOTE) ? name.substring(0, name.length() - NOTE.length()) : name;
    }

    Path note() {
        return file.resolveSibling(file.getFileName() + NOTE);
    }

    /** The name in its note: two files of state with one name are one file, as Spark gives each a unique id. */
    private String name() {
        return file.getFileName().toString();
    }

    /** A name that no other process uses, for what is not a copy yet. */
    Path aside() {
        return file.resolveSibling("." + file.getFileName() + "." + UUID.randomUUID() + UNFINISHED);
    }

    /** Whether there is something that says to be a copy. */
    boolean isNoted() {
        return Files.isRegularFile(note(), LinkOption.NOFOLLOW_LINKS);
    }

    /** Whether the bytes are those that were copied. */
    boolean isWhole() throws IOException {
        Matcher noted = CONTENT.matcher(head(note()));
        // guard: copies-of-other-files-are-read
        if (!noted.matches() || !noted.group(3).equals(name())) {
            return false;
        }
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS)) {
            if (channel.size() != Long.parseLong(noted.group(1))) {
                return false;
            }
            // guard: copies-with-other-bytes-are-read
            return crc(channel) == Long.parseLong(noted.group(2), 16);
        } catch (NoSuchFileException e) {
            return false;
        }
    }

    private static String head(Path note) throws IOException {
        try (FileChannel channel = FileChannel.open(note, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS)) {
            ByteBuffer content = ByteBuffer.allocate(LONGEST);
            while (content.hasRemaining() && channel.read(content) >= 0) {
                // read on
            }
            return new String(content.array(), 0, content.position(), StandardCharsets.UTF_8);
        }
    }

    /** Checksum of a file from its beginning. */
    private static long crc(FileChannel channel) throws IOException {
        CRC32C sum = new CRC32C();
        ByteBuffer buffer = ByteBuffer.allocate(BUFFER);
        while (channel.read(buffer) >= 0) {
            sum.update(buffer.flip());
            buffer.clear();
        }
        return sum.getValue();
    }

    /** Makes a finished file beside it the copy. */
    void take(Path aside) throws IOException {
        try (FileChannel channel = FileChannel.open(aside, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS)) {
            take(aside, channel.size(), crc(channel));
        }
    }

    void take(Path aside, long length, long crc) throws IOException {
        Path written = aside();
        try {
            String content = "1 " + length + " " + Long.toHexString(crc) + " " + name() + "\n";
            Files.write(written, content.getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE_NEW);
            // A rename onto another link to the same file does nothing, and both names stay.
            Files.deleteIfExists(file);
            Files.move(written, note(), StandardCopyOption.ATOMIC_MOVE);
            Files.move(aside, file, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            Files.deleteIfExists(written);
            Files.deleteIfExists(aside);
        }
    }

    /** Removes it; never throws, since it is called where something is wrong already. */
    void drop() {
        for (Path each : new Path[] {note(), file}) {
            try {
                if (Files.isRegularFile(each, LinkOption.NOFOLLOW_LINKS)) {
                    Files.deleteIfExists(each);
                }
            } catch (IOException e) {
                Counters.count(Counters.COPY_ERROR);
            }
        }
    }
}
