"""Lifecycle rules of a bucket that remove or archive objects of this package.

A table file is not written again while its rows stay the same, so it is needed while the job exists: no age makes it
superfluous.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.storage._s3_errors import code_of, handled


if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_NONE = frozenset({"NoSuchLifecycleConfiguration", "NoSuchLifecycle"})
# For servers without such rules, and roles that may not read them: the check needs no more permissions than jobs.
_NOT_TOLD = frozenset({"NotImplemented", "MethodNotAllowed", "AccessDenied", "403", "501", "405"})
_ARCHIVES = frozenset({"GLACIER", "DEEP_ARCHIVE"})  # objects there must be restored before they can be read


def check_rules(client: S3Client, bucket: str, prefix: str) -> None:
    """Assert that no rule of a bucket removes or archives objects below a prefix, if the bucket shows its rules.

    :param prefix: Prefix of the keys; empty, or without a final slash.
    :raises ConfigurationError: A rule does.
    """
    try:
        rules = client.get_bucket_lifecycle_configuration(Bucket=bucket).get("Rules", [])
    except handled() as error:
        if code_of(error) in _NONE | _NOT_TOLD:
            return
        raise
    for rule in rules:
        does = effect(rule, f"{prefix}/" if prefix else "")
        if does:
            raise ConfigurationError(
                f"rule {rule.get('ID', '')!r} of bucket {bucket!r} {does} below s3://{bucket}/{prefix}",
                next_step="Limit the rule to another prefix, or remove it: files of a job are needed at any age",
            )


def effect(rule: Mapping[str, Any], prefix: str) -> str:
    """Describe the effect of a rule on objects below a prefix, as a predicate; empty without an effect. Pure.

    :param rule: As S3 returns it.
    :param prefix: With a final slash, or empty.
    """
    if rule.get("Status") != "Enabled" or not _reaches(rule, prefix):
        return ""
    expiration = rule.get("Expiration", {})
    if expiration.keys() & {"Days", "Date"}:
        return f"expires objects {_when(expiration)}"
    for move in rule.get("Transitions", ()):
        if move.get("StorageClass") in _ARCHIVES:
            return f"moves objects to {move['StorageClass']} {_when(move)}"
    return ""


def _reaches(rule: Mapping[str, Any], prefix: str) -> bool:
    condition = rule.get("Filter", {})
    both = condition.get("And", {})
    if "Tag" in condition or both.get("Tags"):
        return False  # our objects have no tags
    place = rule.get("Prefix") or condition.get("Prefix") or both.get("Prefix") or ""
    return prefix.startswith(place) or place.startswith(prefix)


def _when(part: Mapping[str, Any]) -> str:
    return f"after {part['Days']} days" if "Days" in part else f"on {part.get('Date')}"
