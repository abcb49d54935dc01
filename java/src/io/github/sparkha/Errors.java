package io.github.sparkha;

/** Spark's interface declares no exceptions, and Spark catches those of Hadoop by their class: they may not be wrapped. */
final class Errors {
    private Errors() {
    }

    /** Throws the error as it is. Declared to return one, so that a caller can throw it and the compiler sees an end. */
    static RuntimeException unchecked(Exception error) {
        return Errors.<RuntimeException>raise(error);
    }

    @SuppressWarnings("unchecked")
    private static <T extends Exception> RuntimeException raise(Exception error) throws T {
        throw (T) error;
    }
}
