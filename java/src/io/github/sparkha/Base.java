package io.github.sparkha;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** What a query's directory began with: names, and the places of the files that stand behind them. Never changes. */
final class Base {
    /** The file, directly in the query's directory. */
    static final String FILE = "_ha_base";
    /** The base of a directory that began with nothing. */
    static final Base NONE = new Base("");

    private static final int FORMAT = 1;
    private static final int BLOCK = 128 << 20;
    private static final int FIELDS = 5;
    private static final Pattern HEAD = Pattern.compile("spark-ha-base (\\d+) (\\{.*\\})");
    private static final Pattern EPOCH = Pattern.compile("\"epoch\"\\s*:\\s*(\\d+)");
    private static final Pattern ESCAPE = Pattern.compile("%(.{0,2})");
    private static final Pattern NUMBER = Pattern.compile("0|[1-9]\\d{0,17}");
    private static final Map<String, String> ESCAPES = Map.of("25", "%", "09", "\t", "0A", "\n", "0D", "\r");

    /**
     * One file.
     *
     * @param place relative to the storage root
     * @param mtime milliseconds since 1970, 0 where it was not known
     * @param etag empty where the store has none
     */
    record Entry(String place, long length, long mtime, String etag) {
        /**
         * Where the file lies.
         *
         * @param own the name that stands for it, in the same file system
         * @param root the configured storage root
         */
        Path place(Path own, String root) throws IOException {
            if (root == null) {
                throw new IOException(own + " has a base, and " + HaFileSystem.ROOT
                    + " does not say what its places are relative to");
            }
            URI above = new Path(root).toUri();
            URI here = own.toUri();
            boolean same = Objects.equals(here.getScheme(), above.getScheme())
                && Objects.requireNonNullElse(here.getAuthority(), "").equals(
                    Objects.requireNonNullElse(above.getAuthority(), ""));
            if (!same) {
                throw new IOException(own + " has a base, and " + HaFileSystem.ROOT + " is in another file system: " + root);
            }
            String path = above.getPath().endsWith("/") ? above.getPath() : above.getPath() + "/";
            return new Path(above.getScheme(), here.getAuthority(), path + place);
        }

        FileStatus status(Path path) {
            return new FileStatus(length, false, 1, BLOCK, mtime, path);
        }
    }

    private final String epoch;
    private final Map<String, Entry> files = new HashMap<>();
    private final Map<String, Set<String>> directories = new HashMap<>();
    private final Set<String> hidden = ConcurrentHashMap.newKeySet();

    private Base(String epoch) {
        this.epoch = epoch;
    }

    /** Reads the base of a query's directory; {@link #NONE} when it has none. */
    static Base read(FileSystem files, Path directory) throws IOException {
        Counters.count(Counters.BASE);
        URI place = directory.toUri();
        Path file = new Path(place.getScheme(), place.getAuthority(), place.getPath() + "/" + FILE);
        byte[] content;
        try (FSDataInputStream in = files.open(file)) {
            content = in.readAllBytes();
        } catch (FileNotFoundException e) {
            return NONE;
        }
        return parse(content, file.toString());
    }

    /**
     * Reads a base.
     *
     * @param where for errors
     * @throws IOException it is of another version, half a file, or names something twice or outside
     */
    static Base parse(byte[] content, String where) throws IOException {
        String[] lines = text(content, where).split("\n", -1);
        Matcher head = HEAD.matcher(lines[0]);
        if (!head.matches()) {
            throw refused(where, "its first line is not that of a base");
        }
        if (!head.group(1).equals(String.valueOf(FORMAT))) {
            throw refused(where, "it has format version " + head.group(1) + ", and component " + Component.version()
                + " reads version " + FORMAT + ": use the release of airflow-provider-ha that wrote it, or a newer one");
        }
        int entries = lines.length - 3;
        if (entries < 0 || !lines[lines.length - 1].isEmpty() || !lines[lines.length - 2].equals("end " + entries)) {
            throw refused(where, "it has no right end: it is half a file");
        }
        Matcher epoch = EPOCH.matcher(head.group(2));
        Base base = new Base(epoch.find() ? epoch.group(1) : "?");
        for (int line = 1; line <= entries; line++) {
            base.add(lines[line].split("\t", -1), where + ", line " + (line + 1));
        }
        return base;
    }

    /** Bytes that are damaged would else become a character, and the name another one. */
    private static String text(byte[] content, String where) throws IOException {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(content)).toString();
        } catch (CharacterCodingException e) {
            throw refused(where, "it is not UTF-8");
        }
    }

    private void add(String[] fields, String where) throws IOException {
        if (fields.length != FIELDS) {
            throw refused(where, "it has " + fields.length + " fields instead of " + FIELDS);
        }
        String name = decoded(fields[0], where);
        Entry entry = new Entry(decoded(fields[1], where), number(fields[2], where), number(fields[3], where), fields[4]);
        if (files.put(name, entry) != null) {
            throw refused(where, "it names " + name + " a second time");
        }
        addToDirectories(name);
    }

    private void addToDirectories(String name) {
        String child = name;
        while (true) {
            int slash = child.lastIndexOf('/');
            String parent = slash < 0 ? "" : child.substring(0, slash);
            boolean first = directories.computeIfAbsent(parent, path -> new TreeSet<>()).add(child.substring(slash + 1));
            if (!first || parent.isEmpty()) {
                return;
            }
            child = parent;
        }
    }

    private static long number(String text, String where) throws IOException {
        if (!NUMBER.matcher(text).matches()) {
            throw refused(where, "length or time is not a number");
        }
        return Long.parseLong(text);
    }

    /** Percent-decoding of a name: four characters are escaped and no others. */
    private static String decoded(String text, String where) throws IOException {
        if (text.indexOf('\r') >= 0) {
            throw refused(where, "it has a carriage return that is not escaped");
        }
        Matcher escape = ESCAPE.matcher(text);
        StringBuilder plain = new StringBuilder();
        while (escape.find()) {
            String character = ESCAPES.get(escape.group(1));
            if (character == null) {
                throw refused(where, "%" + escape.group(1) + " is no escape of a base");
            }
            escape.appendReplacement(plain, Matcher.quoteReplacement(character));
        }
        escape.appendTail(plain);
        for (String segment : plain.toString().split("/", -1)) {
            if (segment.isEmpty() || segment.equals("..") || segment.equals(".")) {
                throw refused(where, plain + " is not a path below a directory");
            }
        }
        return plain.toString();
    }

    private static IOException refused(String where, String reason) {
        return new IOException("the base " + where + " is refused: " + reason);
    }

    /** Epoch of the driver that the base was made for. */
    String epoch() {
        return epoch;
    }

    /** The file behind a name, or null. */
    Entry file(String name) {
        return hidden.contains(name) ? null : files.get(name);
    }

    /** Paths of the queries' directories that have the files, below the path of the storage root. */
    Set<String> queries(URI root) {
        Set<String> found = new TreeSet<>();
        String above = root.getPath().endsWith("/") ? root.getPath() : root.getPath() + "/";
        for (Entry entry : files.values()) {
            Layout.Place place = Layout.place(above + entry.place());
            if (place != null) {
                found.add(place.root());
            }
        }
        return found;
    }

    boolean isDirectory(String name) {
        return directories.containsKey(name);
    }

    /** Names directly in a directory. */
    Set<String> children(String name) {
        return directories.getOrDefault(name, Collections.emptySet());
    }

    /** Takes a name, and what is below it, out of this JVM's view; the files belong to another directory and stay. */
    boolean hide(String name) {
        boolean found = false;
        for (String file : files.keySet()) {
            if (file.equals(name) || file.startsWith(name + "/")) {
                found |= hidden.add(file);
            }
        }
        return found;
    }
}
