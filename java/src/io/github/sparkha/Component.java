package io.github.sparkha;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** Which release of the component this JVM has. Driver and executors have to have the same one. */
public final class Component {
    private static final String RESOURCE = "component-version";

    private Component() {
    }

    /** The release, as the Python package has it. */
    public static String version() {
        try (InputStream in = Component.class.getResourceAsStream(RESOURCE)) {
            if (in == null) {
                throw new IllegalStateException("the jar of the component has no " + RESOURCE + ": build it again");
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8).strip();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
