"""Tables of a catalog as sinks of ``toTable()``: the location of a table of Spark, Delta or Iceberg.

Spark itself starts such a query with the provider and the location of the table (``DataStreamWriter.toTable``), so the
rules for file sinks and Delta tables apply. A missing table is made first, as Spark does. Without a metastore the
catalog ends with its driver while the files stay: then the table is made again, at its files' location.

Only the driver can query it. Its answer is recorded with every checkpoint, so that a restore can be planned without a
JVM; a table whose current version is known only to its catalog is recorded without a directory, and a restore plan
reports this.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.sinks.file_sink_log import FORMATS
from airflow_provider_ha.checkpoints.sinks.sink_registry import type_of_format
from airflow_provider_ha.checkpoints.sinks.sink_type import readable_place
from airflow_provider_ha.checkpoints.sinks.table_sinks import DELTA, ICEBERG, is_path, unfenced
from airflow_provider_ha.checkpoints.spark.places import is_local, is_s3, local_path
from airflow_provider_ha.driver.queries.writer_notes import WriterNotes, notes
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


SESSION_CATALOG = "spark.sql.catalog.spark_catalog"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_KNOWN = FORMATS | {DELTA}
_INSTEAD = 'Write with format("...").option("path", "...").start(), or with foreachBatch'


def is_sparks_own(session: Any) -> bool:
    """Return whether names without a catalog are Spark's own; Delta's catalog keeps its tables where Spark's does."""
    catalog: str = session.catalog.currentCatalog()
    return session.conf.get(SESSION_CATALOG, DELTA_CATALOG) == DELTA_CATALOG and catalog == "spark_catalog"


def write_to_table(writer: Any, name: str) -> str | None:
    """Make a writer write to a table; return its location, for ``start()``; ``None`` if Spark has to find the table.

    :param name: As the script gave it to ``toTable()``.
    :raises ApplicationRefusedError: The content of the table is unknown, or its location changes with every attempt.
    """
    session, noted = writer._spark, notes(writer)  # noqa: SLF001  # it has no public name
    state = session._jsparkSession.sessionState()  # noqa: SLF001  # the same
    try:
        table = state.sqlParser().parseTableIdentifier(name) if is_sparks_own(session) else None
    except Exception:  # noqa: BLE001  # py4j's error: a name with a catalog
        table = None
    if (iceberg := full_name(session, name)) is not None:
        return _write_to_iceberg(writer, name, iceberg)
    source = str(noted.sink or session.conf.get("spark.sql.sources.default"))
    if table is None or (table.catalog().isDefined() and table.catalog().get() != "spark_catalog"):
        found = _provider_elsewhere(session, name)
        _leave_to_spark(writer, name, source if found is None else found, "in another catalog")
        return None
    known = bool(state.catalog().tableExists(table))
    if not known:
        if source.lower() not in _KNOWN:
            _leave_to_spark(writer, name, source, "that is not there")
            return None
        place = str(noted.options.get("path") or _named(session, state.catalog().defaultTablePath(table)))
        _check_place(name, place)
        _create(writer, name, source, place)
    metadata = state.catalog().getTableMetadata(table)
    provider = str(metadata.provider().get()) if metadata.provider().isDefined() else ""
    if provider.lower() not in _KNOWN:
        _leave_to_spark(writer, name, provider or "view", "in Spark's own catalog")
        return None
    if noted.sink is not None and noted.sink.lower() != provider.lower():
        raise _of_another_provider(name, noted.sink, provider)
    location = _named(session, metadata.location())
    _check_place(name, location)
    writer.format(provider)
    return location


def place_of_table(session: Any, name: str) -> tuple[str, bool] | None:
    """Return the location of a table of Spark's own catalog, and whether it exists; ``None`` for every other table.

    The location of a missing table is the location where Spark would make it.
    """
    try:
        if not is_sparks_own(session):
            return None
        state = session._jsparkSession.sessionState()  # noqa: SLF001  # it has no public name
        table = state.sqlParser().parseTableIdentifier(name)
        catalog = state.catalog()
        known = bool(catalog.tableExists(table))
        location = catalog.getTableMetadata(table).location() if known else catalog.defaultTablePath(table)
        return _named(session, location), known
    except Exception:  # noqa: BLE001  # py4j's error or Spark's: a name that only another catalog can read, or a view
        return None


def location_of(writer: Any, name: str) -> str | None:
    """Return the location of a table, existing or to be made; ``None`` if unknown. The table is not made.

    :param name: As the script gave it to ``toTable()``.
    """
    if (iceberg := full_name(writer._spark, name)) is not None:  # noqa: SLF001  # it has no public name
        writer.format(ICEBERG)
        return iceberg
    found = place_of_table(writer._spark, name)  # noqa: SLF001  # the same
    if found is None:
        notes(writer).table = name  # as write_to_table() does, for the name of the query
        return None
    place, known = found
    return place if known else notes(writer).options.get("path", place)


def _named(session: Any, location: Any) -> str:
    """Return a location as a writer names it: the catalog has a ``java.net.URI``, whose text has escapes."""
    return str(session._jvm.org.apache.hadoop.fs.Path(location).toString())  # noqa: SLF001  # it has no public name


def _write_to_iceberg(writer: Any, name: str, full: str) -> str:
    """Return the name of a table in an Iceberg catalog, including the catalog: its format takes that for a path."""
    session, noted = writer._spark, notes(writer)  # noqa: SLF001  # it has no public name
    if noted.sink is not None and noted.sink.lower() != ICEBERG:
        raise _of_another_provider(name, noted.sink, ICEBERG)
    if not session.catalog.tableExists(full):
        create_table(session, full, writer._df._jdf.schema().toDDL(), noted.partitions)  # noqa: SLF001  # the same
    writer.format(ICEBERG)
    return full


def _create(writer: Any, name: str, source: str, place: str) -> None:
    """Make a table. A table that already has a directory keeps it, and a Delta table the schema of its log."""
    session, noted = writer._spark, notes(writer)  # noqa: SLF001  # it has no public name
    path = session._jvm.org.apache.hadoop.fs.Path(place)  # noqa: SLF001  # the same
    exists = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()).exists(path)  # noqa: SLF001  # the same
    location = ""
    if exists or "path" in noted.options:
        location = " LOCATION '{}'".format(place.replace("\\", "\\\\").replace("'", "\\'"))
    schema = "" if exists and source.lower() == DELTA else f" ({writer._df._jdf.schema().toDDL()})"  # noqa: SLF001  # the same
    columns = ", ".join(f"`{column.replace('`', '``')}`" for column in noted.partitions)
    partitions = f" PARTITIONED BY ({columns})" if columns and schema else ""
    session.sql(f"CREATE TABLE IF NOT EXISTS {name}{schema} USING {source}{partitions}{location}")


def _leave_to_spark(writer: Any, name: str, provider: str, where: str) -> None:
    """Let Spark itself find a table whose sink executes every batch that it receives.

    :raises ApplicationRefusedError: Its sink skips batches by their numbers, and its content is unknown.
    """
    if provider.lower() in FORMATS or type_of_format(provider).table is not None:
        raise ApplicationRefusedError(
            f"a query writes with toTable() to table {name!r} of {provider} {where}: such a table skips a batch whose "
            "number it has, its content is unknown here, and a restore could lose rows",
            next_step=_INSTEAD,
        )
    noted = notes(writer)
    noted.table, noted.sink = name, provider


def _provider_elsewhere(session: Any, name: str) -> str | None:
    """Return the provider of a table of another catalog, ``"table"`` if unnamed; ``None`` for no table."""
    try:
        described = session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except Exception:  # noqa: BLE001  # Spark's own error: it says that next, when the query is started
        return None
    return next((str(row["data_type"]) for row in described if row["col_name"] == "Provider"), "table")


def _check_place(name: str, place: str) -> None:
    if is_local(place) and local_path(place).is_relative_to(Path.cwd()):
        raise in_this_attempt_only(name, place)


def in_this_attempt_only(name: str, place: object) -> ApplicationRefusedError:
    """Return the refusal of a table in the working directory of this attempt."""
    return ApplicationRefusedError(
        f"the script writes table {name!r} to {place}, and to another directory in every other attempt, so a recovery "
        "would lose its rows",
        next_step="Set spark.sql.warehouse.dir in the conf of the job to an absolute path, or give the table an "
        "absolute path",
    )


def _of_another_provider(name: str, source: str, provider: str) -> ApplicationRefusedError:
    return ApplicationRefusedError(
        f"a query writes {source} to table {name!r}, whose provider is {provider}",
        next_step=f'Write .format("{provider}"), or leave the format out',
    )
