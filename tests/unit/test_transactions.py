"""What the answers to a transaction mean: kazoo returns errors as values."""

from __future__ import annotations

import pytest
from kazoo.exceptions import NoNodeError, RolledBackError, RuntimeInconsistency  # noqa: TID253  # its answers

from airflow_provider_ha.coordination._kazoo_transaction import versions_of
from airflow_provider_ha.coordination.coordinator import Check, Create, Op
from airflow_provider_ha.errors import CoordinationError, NodeMissingError


def test_the_operation_that_was_rejected_is_named_not_those_that_went_with_it() -> None:
    ops: list[Op] = [Create("/a"), Check("/b", 1), Create("/c")]
    answers = [RolledBackError(), NoNodeError(), RuntimeInconsistency()]

    with pytest.raises(NodeMissingError, match="/b"):
        versions_of(answers, ops, "zk1")


def test_a_rejection_without_a_reason_is_an_error_all_the_same() -> None:
    with pytest.raises(CoordinationError, match=r"zk1.* rejected a write of /a without a reason"):
        versions_of([RolledBackError(), RolledBackError()], [Create("/a"), Create("/b")], "zk1")
