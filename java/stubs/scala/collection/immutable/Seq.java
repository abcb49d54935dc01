package scala.collection.immutable;

public interface Seq<T> {
    boolean contains(Object value);

    boolean isEmpty();
}
