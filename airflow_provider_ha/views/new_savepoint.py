"""A savepoint that a command has just made, and the pool of S3 that it lies in."""

from __future__ import annotations

from airflow_provider_ha.views.view import View


class NewSavepointView(View):
    """A savepoint that is complete.

    :param savepoint_id: Its id.
    :param directory: Its path, or its URI on S3.
    :param cut: Query -> batch.
    :param files: How many files it has.
    :param bytes: Their size.
    :param shares_inodes: Whether its files are hard links of live ones.
    :param digested: Whether every file has a digest.
    """

    savepoint_id: str
    directory: str
    cut: dict[str, int]
    files: int
    bytes: int
    shares_inodes: bool
    digested: bool


class PoolView(View):
    """A sweep of the pool of savepoints on S3.

    :param removed: Files that are gone.
    :param size: Size in bytes.
    :param kept: Files that a savepoint names.
    :param young: Files that no savepoint names, and that are younger than the grace.
    :param in_use_by: Holders that use or sweep the pool. While there are any, the sweep neither removes nor counts
        objects.
    """

    removed: int
    size: int
    kept: int
    young: int
    in_use_by: tuple[str, ...]


class SweptView(View):
    """A pool that was swept.

    :param place: Place of the savepoints.
    :param pool: Objects that the sweep removed.
    """

    place: str
    pool: PoolView


class PooledDisposedView(View):
    """A savepoint on S3 that is gone.

    :param savepoint: Its URI.
    :param disposed: Always true.
    :param pool: Objects that were removed with it, because no other savepoint names them.
    """

    savepoint: str
    disposed: bool = True
    pool: PoolView
