package scala.collection.immutable;

public final class Nil$ {
    public static final Nil$ MODULE$ = null;

    private Nil$() {
    }
}
