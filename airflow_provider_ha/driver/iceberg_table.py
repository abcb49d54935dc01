"""The location of an Iceberg table that a query writes to, from Iceberg itself: it is part of the session's JVM.

Only the driver can query it. Its answer is recorded with every checkpoint, so that a restore can be planned without a
JVM; a table whose current version is known only to its catalog is recorded without a directory, and a restore plan
reports this.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.connectors.iceberg import ICEBERG, is_path, unfenced
from airflow_provider_ha.checkpoints.connectors.places import is_local, is_s3, local_path
from airflow_provider_ha.checkpoints.connectors.table_judgement import readable_place
from airflow_provider_ha.driver.writer_notes import WriterNotes
from airflow_provider_ha.errors import ApplicationRefusedError


log = logging.getLogger(__name__)
CATALOGS = "org.apache.iceberg.spark."
"""Package of Iceberg's catalogs for Spark."""
_SELF_TOLD = "HadoopTableOperations"  # of tables whose directory names the current version
_STAGED = ("spark.wap.branch", "spark.wap.id")  # conf that directs a write to another place than the current snapshot
_BRANCH = "branch"  # option of a writer, and prefix of a name's last part, with the same effect


def full_name(session: Any, name: str) -> str | None:
    """Return the name of a table with its catalog; ``None`` if it is no Iceberg catalog.

    :param name: As the script gave it to ``toTable()``.
    """
    parts = _parts(session, name)
    catalog = session.catalog.currentCatalog()
    if len(parts) > 1 and session.conf.get(f"spark.sql.catalog.{parts[0]}", None) is not None:
        catalog, parts = parts[0], parts[1:]
    if not str(session.conf.get(f"spark.sql.catalog.{catalog}", "")).startswith(CATALOGS):
        return None
    if len(parts) == 1:
        parts = [*_parts(session, session.catalog.currentDatabase()), *parts]
    return ".".join(_quoted(part) for part in (catalog, *parts))


def table_directory(session: Any, query: str, noted: WriterNotes) -> str | None:
    """Return the directory of the table that a query writes to; ``None`` if only its catalog knows the content.

    :raises ApplicationRefusedError: Two drivers could not be kept apart there, or its location changes with every
        attempt.
    """
    named = noted.options.get("path")
    if not named or is_path(named):  # the first one is Spark's to refuse
        return readable_place(named)
    try:
        table = session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, named)  # noqa: SLF001  # they have no public name
        told, location = is_self_told(table), str(table.location())
    except Exception as error:  # noqa: BLE001  # py4j's error; where Iceberg itself cannot find it, Spark says so next
        log.warning(
            "query %s: Iceberg does not report the location of table %s: %s", query, named, str(error).splitlines()[0]
        )
        return None
    if not told:
        return None
    if is_s3(location) and not _is_locked(session, named):
        reason, next_step = unfenced(location)
        raise ApplicationRefusedError(f"query {query!r} {reason}", next_step=next_step)
    if is_local(location) and (Path.cwd() / local_path(location)).is_relative_to(Path.cwd()):
        raise ApplicationRefusedError(
            f"query {query!r} writes table {named!r} to {location}, and to another directory in every other attempt, "
            "so a recovery would lose its rows",
            next_step="Set the catalog's warehouse in the conf of the job to an absolute path",
        )
    return None if _is_staged(session, named, noted) else readable_place(location)


def is_self_told(table: Any) -> bool:
    """Return whether the directory of an Iceberg table names the current version, not only its catalog."""
    return bool(table.operations().getClass().getSimpleName() == _SELF_TOLD)


def create_table(session: Any, name: str, columns: str, partitions: tuple[str, ...]) -> None:
    """Make a missing table, as Spark does.

    :param name: With its catalog.
    :param columns: As SQL.
    """
    by = f" PARTITIONED BY ({', '.join(map(_quoted, partitions))})" if partitions else ""
    session.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING {ICEBERG}{by}")


def _is_locked(session: Any, named: str) -> bool:
    """Return whether the Hadoop catalog of a table has a lock that works across JVMs."""
    parts = _parts(session, named)
    catalog = parts[0] if len(parts) > 1 else session.catalog.currentCatalog()
    lock = session.conf.get(f"spark.sql.catalog.{catalog}.lock-impl", None)
    return lock is not None and "InMemory" not in lock


def _is_staged(session: Any, named: str, noted: WriterNotes) -> bool:
    """Return whether the rows go to a branch, or are staged: the current snapshot does not name them."""
    last = _parts(session, named)[-1]
    return (
        _BRANCH in noted.options
        or last.startswith(f"{_BRANCH}_")
        or any(session.conf.get(key, None) is not None for key in _STAGED)
    )


def _parts(session: Any, name: str) -> list[str]:
    found = session._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(name)  # noqa: SLF001  # it has no public name
    return [str(found.apply(at)) for at in range(found.size())]


def _quoted(part: str) -> str:
    return part if part.isidentifier() else "`{}`".format(part.replace("`", "``"))
