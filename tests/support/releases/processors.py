"""``transformWithState`` in Python on Spark 4.0, which knows it with pandas only: 4.1 began to give rows.

Python 3.6 has to understand this file. It lies beside the queries and not among them, so that what the other releases
recorded keeps its name.
"""

from typing import Any


def counted(rows: Any, otherwise: Any) -> Any:
    """Return running counts by a stateful processor.

    :param otherwise: The query of every later release.
    """
    return counted_in_pandas(rows) if rows.sparkSession.version.startswith("4.0.") else otherwise(rows)


def counted_in_pandas(rows: Any) -> Any:
    """Return running counts that a processor of pandas frames keeps."""
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "n long")

        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:  # noqa: N802  # Spark's name
            del timers
            before = self.count.get()[0] if self.count.exists() else 0
            total = before + sum(len(frame) for frame in rows)
            self.count.update((total,))
            yield pd.DataFrame({"key": [key[0]], "count": [total]})

        def close(self) -> None:
            pass

    return rows.groupBy("key").transformWithStateInPandas(Count(), "key string, count long", "Append", "None")
