package scala;

public abstract class Option<T> {
    public final boolean isDefined() {
        throw new UnsupportedOperationException();
    }
}
