"""Damage to metadata, to the three logs, and to what they say."""

from __future__ import annotations

from lab.verdicts.damages import ASYNC, FEW, HDFS, IN_FLIGHT, SOME, Damage
from lab.verdicts.steps import Step


_IDS = {
    "a word": '{"id":"not-a-uuid"}',
    "empty": '{"id":""}',
    "null": '{"id":null}',
    "a number": '{"id":17}',
    "missing": "{}",
    "short": '{"id":"1-2-3-4-5"}',
    "without hyphens": '{"id":"0123456789abcdef0123456789abcdef"}',
    "with a blank": '{"id":" 01234567-89ab-cdef-0123-456789abcdef"}',
    "in capitals": '{"id":"01234567-89AB-CDEF-0123-456789ABCDEF"}',
    "in a list": '[{"id":"01234567-89ab-cdef-0123-456789abcdef"}]',
    "with another field": '{"id":"01234567-89ab-cdef-0123-456789abcdef","name":"x"}',
    "with text behind it": '{"id":"01234567-89ab-cdef-0123-456789abcdef"} and more',
}
_CONF = "spark.sql.streaming."
# What each release records of its conf, and values that it cannot parse or does not know.
_VALUES = {
    "spark.sql.shuffle.partitions": ("two", "2.0", "0", "-2", " 2 ", ""),
    f"{_CONF}stateStore.providerClass": ("org.example.NoSuchProvider", ""),
    f"{_CONF}stateStore.compression.codec": ("lz5", ""),
    f"{_CONF}stateStore.rocksdb.formatVersion": ("five",),
    f"{_CONF}stateStore.encodingFormat": ("xml",),
    f"{_CONF}aggregation.stateFormatVersion": ("two", "9"),
    f"{_CONF}flatMapGroupsWithState.stateFormatVersion": ("two", "9"),
    f"{_CONF}join.stateFormatVersion": ("two", "9"),
    f"{_CONF}multipleWatermarkPolicy": ("median",),
    f"{_CONF}statefulOperator.useStrictDistribution": ("maybe",),
    f"{_CONF}stateStore.rowChecksum.enabled": ("maybe",),
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": ("maybe",),
}


def log_topics() -> list[tuple[str, list[Damage]]]:
    """Return what is damaged, with the damages."""
    return [
        ("Metadata", _of_metadata()),
        ("Recorded conf", _of_conf()),
        ("Offset log", _of_offsets()),
        ("Commit log", _of_commits()),
        ("Source log", _of_sources()),
        ("Asynchronous progress tracking", _of_sparse_logs()),
    ]


def _of_metadata() -> list[Damage]:
    some = ("stateless", HDFS)
    made = [Damage(f"metadata, id {what}", some, (Step("write", "metadata", (text,)),)) for what, text in _IDS.items()]
    return [
        *made,
        Damage("metadata removed", FEW, (Step("remove", "metadata"),)),
        Damage("metadata emptied", some, (Step("empty", "metadata"),)),
        Damage("metadata halved", some, (Step("halve", "metadata"),)),
    ]


def _of_conf() -> list[Damage]:
    return [
        Damage(
            f"conf {key.rpartition('sql.')[2]} is '{value}'",
            ("stateless", HDFS),
            (Step("set-conf", "offsets/{L}", (key, value)),),
        )
        for key, values in _VALUES.items()
        for value in values
    ]


def _of_offsets() -> list[Damage]:
    last, before, old = "offsets/{L}", "offsets/{L-1}", "offsets/{L-3}"
    both_before = (Step("remove", before), Step("remove", "commits/{C-1}"))
    watermark = Step("replace", last, ('"batchWatermarkMs":', '"batchWatermarkMs":"x",'))
    return [
        Damage("newest offsets emptied", FEW, (Step("empty", last),)),
        Damage("newest offsets halved", FEW, (Step("halve", last),)),
        Damage("newest offsets without last line", FEW, (Step("cut-line", last),)),
        Damage("newest offsets of version 9", FEW, (Step("replace", last, ("v1", "v9")),)),
        Damage("newest offsets without version", FEW, (Step("replace", last, ("v1\n", "")),)),
        Damage("newest offsets with a watermark that is a word", FEW, (watermark,)),
        Damage("newest offsets removed, commit left", SOME, (Step("remove", last),)),
        Damage("offsets before the newest removed", SOME, (Step("remove", before),)),
        Damage("offsets before the newest removed, batch in flight", FEW, (Step("remove", before), IN_FLIGHT), open=1),
        Damage("offsets and commit before the newest removed", SOME, both_before),
        Damage("offsets before the newest emptied", FEW, (Step("empty", before),)),
        Damage("offsets before the newest emptied, batch in flight", FEW, (Step("empty", before), IN_FLIGHT), open=1),
        Damage("old offsets removed", FEW, (Step("remove", old),)),
        Damage("old offsets emptied", FEW, (Step("empty", old),)),
        Damage("old offsets and commit removed", FEW, (Step("remove", old), Step("remove", "commits/{C-3}"))),
        Damage("commits without any offsets", SOME, (Step("remove", "offsets"),)),
        Damage("commits without any offsets, log emptied", FEW, (Step("empty-folder", "offsets"),)),
        Damage("both logs removed", FEW, (Step("remove", "offsets"), Step("remove", "commits"))),
        Damage("newest offsets with a wrong hidden sum", FEW, (Step("wrong-hidden-sum", last, sums="keep"),)),
    ]


def _of_commits() -> list[Damage]:
    last = "commits/{C}"
    return [
        Damage("newest commit emptied", FEW, (Step("empty", last),)),
        Damage("newest commit halved", FEW, (Step("halve", last),)),
        Damage("newest commit without last line", FEW, (Step("cut-line", last),)),
        Damage("newest commit of version 9", FEW, (Step("replace", last, ("v", "v9")),)),
        Damage("newest commit removed, its sum left", FEW, (Step("remove-alone", last),), open=1),
        Damage("commit before the newest removed", FEW, (Step("remove", "commits/{C-1}"),)),
        Damage("commit before the newest emptied", FEW, (Step("empty", "commits/{C-1}"),)),
        Damage("old commit removed", FEW, (Step("remove", "commits/{C-3}"),)),
        Damage("two newest commits removed", FEW, (IN_FLIGHT, IN_FLIGHT), open=2),
        Damage("every commit removed", SOME, (Step("remove", "commits"),), open=2),
        Damage("every commit removed, log emptied", FEW, (Step("empty-folder", "commits"),), open=2),
    ]


def _of_sources() -> list[Damage]:
    some = FEW
    last, compact = "sources/0/4", "sources/0/3.compact"
    return [
        Damage("newest source entry removed", some, (Step("remove", last),)),
        Damage("newest source entry emptied", some, (Step("empty", last),)),
        Damage("newest source entry halved", some, (Step("halve", last),)),
        Damage("source entry removed, batch in flight", some, (Step("remove", last), IN_FLIGHT), open=1),
        Damage("compacted source entries removed", some, (Step("remove", compact),)),
        Damage("compacted source entries emptied", some, (Step("empty", compact),)),
        Damage("compacted source entries without last line", some, (Step("cut-line", compact),)),
        Damage("a path in the source log changed", some, (Step("replace", compact, ("/001", "/0x")),)),
        Damage("every source entry removed", some, (Step("remove", "sources"),)),
        Damage("source entries with a wrong hidden sum", some, (Step("wrong-hidden-sum", compact, sums="keep"),)),
    ]


def _of_sparse_logs() -> list[Damage]:
    """Asynchronous progress tracking: gaps and purged logs are nothing wrong."""
    purged = {
        "the newest entry": (1, 1),
        "the two newest entries": (2, 2),
        "the three newest entries": (3, 3),
        "one offset and two commits": (1, 2),
        "two offsets and one commit": (2, 1),
    }
    return [
        *(Damage(f"logs purged to {what}", ASYNC, (Step("purge", more=counts),)) for what, counts in purged.items()),
        *(
            Damage(f"logs purged to {what}, batch in flight", ASYNC, (IN_FLIGHT, Step("purge", more=counts)))
            for what, counts in purged.items()
        ),
        Damage("newest commit removed", ASYNC, (IN_FLIGHT,)),
        Damage("metadata removed", ASYNC, (Step("remove", "metadata"),)),
        Damage("newest offsets emptied", ASYNC, (Step("empty", "offsets/{L}"),)),
        Damage("newest offsets removed, commit left", ASYNC, (Step("remove", "offsets/{L}"),)),
        Damage("newest commit emptied", ASYNC, (Step("empty", "commits/{C}"),)),
        Damage("every commit removed", ASYNC, (Step("remove", "commits"),)),
        Damage("commits without any offsets", ASYNC, (Step("remove", "offsets"),)),
        Damage("the source's first offset removed", ASYNC, (Step("remove", "sources/0/0"),)),
        Damage("the source's first offset emptied", ASYNC, (Step("empty", "sources/0/0"),)),
    ]
