"""Writes the table of sources in docs/reference/restore-plan.md: ``python -m tests.docs.source_table``."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.sources.source_registry import SOURCE_TYPES
from airflow_provider_ha.checkpoints.sources.source_type import SourceType


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "restore-plan.md"
BEGIN, END = "<!-- sources -->\n", "<!-- end of sources -->"
TYPES = (*SOURCE_TYPES, SourceType())
# Type -> the test of what is asked, and that of a missing answer.
TESTS = {
    "FileSource": (
        "unit/checkpoints/test_input_files.py::test_a_file_that_was_replaced_is_impossible_to_replay_as_one_that_is_gone",
        "unit/checkpoints/test_input_files.py::test_a_file_on_a_file_system_that_cannot_be_asked_is_unknown",
    ),
    "KafkaSource": (
        "unit/checkpoints/test_facts_of_a_cut.py::test_a_topic_of_another_id_is_another_topic_however_long_it_is",
        "unit/checkpoints/test_facts_of_a_cut.py::test_brokers_that_are_not_named_leave_the_cut_unknown",
    ),
    "DeltaSource": (
        "unit/checkpoints/test_table_sources.py::test_a_version_that_was_removed_from_the_log_is_lost",
        "unit/checkpoints/test_table_sources.py::test_a_table_whose_place_is_not_recorded_is_unknown",
    ),
    "IcebergSource": (
        "unit/checkpoints/test_table_sources.py::test_a_snapshot_that_the_table_does_not_come_from_is_lost",
        "unit/checkpoints/test_table_sources.py::test_an_iceberg_table_whose_catalog_knows_its_state_is_unknown",
    ),
    "CountedSource": (
        "unit/checkpoints/test_inputs.py::test_a_generator_is_told_from_a_socket_by_the_note_of_its_beginning",
        "unit/checkpoints/test_inputs.py::test_a_generator_is_told_from_a_socket_by_the_note_of_its_beginning",
    ),
    "SourceType": (
        "unit/checkpoints/test_inputs.py::test_what_only_the_source_understands_has_no_figure_unless_it_has_read_nothing",
        "unit/checkpoints/test_inputs.py::test_a_source_that_cannot_be_asked_is_unknown_with_a_replay_and_without",
    ),
}


def table() -> str:
    """Return the table."""
    rows = map(_row, TYPES)
    return "\n".join(["| Source | Request | Without an answer |", "|---|---|---|", *rows, ""])


def _row(kind: SourceType) -> str:
    asked, silence = (f"`tests/{test}`" for test in TESTS[type(kind).__name__])
    return f"| {kind.label} | {kind.asked} {asked} | {kind.silence} {silence} |"


def page() -> str:
    """Return the page with the table of today."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
