package io.github.sparkha;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Time since boot, suspension included.
 *
 * <p>System.nanoTime() stands still while the machine sleeps, so that a lease would seem to hold. Java has no other
 * clock that never jumps; the kernel shows CLOCK_BOOTTIME in this file.
 */
final class Uptime {
    private static volatile Path source = Path.of("/proc/uptime");

    private Uptime() {
    }

    static long millis() throws IOException {
        String text = Files.readString(source, StandardCharsets.US_ASCII);
        int end = text.indexOf(' ');
        try {
            return (long) (Double.parseDouble(end < 0 ? text : text.substring(0, end)) * 1000);
        } catch (NumberFormatException e) {
            throw new IOException(source + " does not show the time since boot: " + text, e);
        }
    }
}
