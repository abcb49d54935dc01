"""What a store has to guarantee, what is built on that, and the tests that show it on each server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class Server(str, Enum):
    """What a store was, with its name as a head of the table."""

    DIRECTORY = "a directory"
    S3 = "S3 (versitygw)"
    HDFS = "HDFS"


@dataclass(frozen=True, slots=True)
class Promise:
    """One guarantee.

    :param text: What holds.
    :param shown: Server -> the tests that show it there, as pytest names them. A server that is left out does not need
        it, or cannot be asked.
    """

    text: str
    shown: Mapping[Server, Sequence[str]]

    @property
    def cells(self) -> Mapping[str, Sequence[str]]:
        """Name of a cell -> its tests."""
        return {f"{self.text} / {server.value}": tests for server, tests in self.shown.items()}


_STORE = "tests/contract/test_object_store.py"
_S3_STORE = "tests/contract/test_s3_store.py"
_RACE = "tests/integration/component/test_race.py"
_S3 = "tests/integration/test_storage_s3_work_root.py"
_HDFS = "tests/integration/test_storage_hdfs.py"
_FAILOVER = "tests/integration/test_storage_hdfs_failover.py"
_AREA = "tests/contract/test_layered_work_area.py"
_COLLECTOR = "tests/contract/test_collector.py::test_a_job_that_was_taken_over_is_collected_and_goes_on"
_ADOPTION = "tests/integration/test_adoption_from_stores.py"
_SPARK = "tests/integration/component/test_with_spark.py"
_PARAMETER = {Server.DIRECTORY: "directory", Server.S3: "s3", Server.HDFS: "hdfs"}


def _on_all(test: str, more: Mapping[Server, Sequence[str]] | None = None) -> dict[Server, Sequence[str]]:
    """Return a test of the contract of stores on every server, and other tests beside it."""
    return {
        server: (f"{_STORE}::{test}[{parameter}]", *(more or {}).get(server, ()))
        for server, parameter in _PARAMETER.items()
    }


PROMISES: tuple[Promise, ...] = (
    Promise(
        "Exactly one of several simultaneous creations of a name succeeds, from Python and from Spark's JVM",
        _on_all(
            "test_of_racing_creations_exactly_one_wins",
            {
                server: (f"{_RACE}::test_one_of_eight_writers_gets_each_of_twenty_names[{store}]",)
                for server, store in zip(Server, ("local_store", "s3_store", "hdfs_store"), strict=True)
            },
        ),
    ),
    Promise(
        "A creation whose answer was lost is distinguished from that of another writer",
        {
            Server.S3: (
                f"{_S3_STORE}::test_a_creation_whose_answer_was_lost_is_recognised_by_its_writer",
                f"{_S3_STORE}::test_a_writer_waits_until_the_store_shows_the_object_that_it_was_refused_for",
                f"{_S3_STORE}::test_equal_bytes_of_another_writer_are_not_ones_own",
                f"{_RACE}::test_a_winner_whose_reply_was_lost_has_won_and_no_other",
            ),
            Server.HDFS: (
                f"{_HDFS}::test_a_creation_whose_answer_was_lost_has_happened",
                f"{_HDFS}::test_equal_bytes_of_another_writer_are_not_ones_own",
                f"{_HDFS}::test_a_creation_that_was_not_executed_is_asked_for_again",
            ),
        },
    ),
    Promise(
        "A write is listed and read immediately",
        _on_all("test_what_was_written_is_listed_and_read_at_once"),
    ),
    Promise(
        "A file appears complete or not at all",
        _on_all(
            "test_an_object_is_never_seen_in_part",
            {
                Server.S3: (f"{_RACE}::test_what_is_cancelled_on_s3_is_never_sent",),
                Server.HDFS: (f"{_RACE}::test_nothing_half_written_is_visible_on_hdfs",),
            },
        ),
    ),
    Promise("A file that was replaced is noticed", _on_all("test_an_object_that_was_replaced_is_not_read_on")),
    Promise("Times of files never go back", _on_all("test_a_later_object_is_not_older")),
    Promise(
        "The contract of work areas: forks, fences, retained cuts, removals",
        {
            Server.DIRECTORY: (f"{_AREA}::TestLayeredOnADirectory",),
            Server.S3: (f"{_AREA}::TestLayeredOnS3",),
            Server.HDFS: (f"{_AREA}::TestLayeredOnHdfs",),
        },
    ),
    Promise(
        "The collector removes only what nothing needs",
        {server: (f"{_COLLECTOR}[{parameter}]",) for server, parameter in _PARAMETER.items()},
    ),
    Promise(
        "Spark executes every shape of query there, and a later epoch continues from the base",
        {
            Server.S3: (f"{_SPARK}::test_every_layout_on_s3",),
            Server.HDFS: (f"{_SPARK}::test_every_layout_on_hdfs",),
        },
    ),
    Promise(
        "A checkpoint that Spark alone wrote there is adopted, and left as it is",
        {
            server: tuple(
                f"{_ADOPTION}::{test}[{parameter}]"
                for test in (
                    "test_a_plan_says_what_goes_on_and_changes_nothing",
                    "test_a_query_that_went_on_after_the_plan_is_refused_by_the_driver",
                    "test_spark_goes_on_from_what_was_adopted_and_the_output_is_exact",
                )
            )
            for server, parameter in ((Server.S3, "on_s3"), (Server.HDFS, "on_hdfs"))
        },
    ),
    Promise(
        "What cannot hold working directories is refused with its reason, before anything is left in it",
        {
            Server.S3: (
                f"{_S3}::test_a_store_without_conditional_writes_is_refused_and_left_empty",
                f"{_S3}::test_a_bucket_with_a_rule_that_expires_objects_is_refused",
                f"{_S3}::test_a_user_who_may_only_read_is_refused",
                f"{_S3}::test_wrong_credentials_are_named_and_not_told",
                f"{_S3}::test_a_wrong_region_is_named",
            ),
            Server.HDFS: (
                f"{_HDFS}::test_a_name_node_in_safe_mode_can_be_read_and_says_why_it_cannot_be_written",
                f"{_HDFS}::test_a_quota_of_names_is_called_by_its_name",
                f"{_HDFS}::test_a_quota_of_space_is_called_by_its_name",
                f"{_HDFS}::test_a_user_without_permission_reads_whose_directory_it_is",
            ),
        },
    ),
    Promise(
        "A file that is being created when its name node is killed is created once, through the other one",
        {Server.HDFS: (f"{_FAILOVER}::test_a_store_goes_on_with_the_name_node_that_takes_over",)},
    ),
)
