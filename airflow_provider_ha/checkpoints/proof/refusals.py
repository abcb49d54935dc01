"""Return whether an error of Spark is its answer about the checkpoint, or only says that Spark could not run.

Invariant: a lack of memory, of disk, of a class or of an answer from elsewhere is never called damage (contract 6).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_provider_ha.checkpoints.proof.answers import SparkError


# Name of a class, its package left out, or Spark's condition.
_NOT_ABOUT_THE_CHECKPOINT = re.compile(
    r"(OutOfMemory|Interrupted|ClassNotFound|NoClassDefFound|NoSuchMethod|UnsatisfiedLink|UnknownHost|UnresolvedAddress"
    r"|Connect|Connection\w*|\w*Timeout|RpcEndpointNotFound|AccessDenied|NoAuthWithAWS|NoAwsCredentials|UnsupportedFileSystem|Py4J(Network)?|BrokenPipe)"
    r"(Error|Exception)?\Z"
    # What the state data source cannot read in principle: it says nothing about what lies there.
    r"|\ASTDS_|\AUNSUPPORTED_FEATURE|\ACANNOT_OPEN_SOCKET|\ADATA_SOURCE_NOT_FOUND"
)
_ONLY_THE_HOST = re.compile(
    r"No space left on device|Disk quota exceeded|Too many open files|Java heap space|GC overhead limit"
    r"|Cannot allocate memory|Python worker (failed to connect|exited)|Connection refused|Permission denied"
    r"|SparkContext was shut down|Cannot call methods on a stopped SparkContext",
    re.IGNORECASE,
)


def is_refusal(errors: Sequence[SparkError]) -> bool:
    """Return whether these errors, from the outermost to the cause, mean that Spark refuses the checkpoint."""
    return bool(errors) and not any(
        _NOT_ABOUT_THE_CHECKPOINT.search(error.error_class.rpartition(".")[2] if _is_java(error) else error.error_class)
        or _ONLY_THE_HOST.search(error.message)
        for error in errors
    )


def decisive_error(errors: Sequence[SparkError]) -> SparkError:
    """Return the error to show: Spark's innermost condition, else the cause."""
    conditions = [error for error in errors if not _is_java(error) and "UNCATEGORIZED" not in error.error_class]
    return (conditions or list(errors))[-1]


def _is_java(error: SparkError) -> bool:
    """Return whether it has no condition of Spark: those are written in capitals."""
    return error.error_class != error.error_class.upper()
