"""``spark-ha acl`` on a real ZooKeeper: what is open, what is of an old password, and the change of a password."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination import _kazoo_acls
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination._kazoo_acls import KazooAcls, NodeAcl, check, repair
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.errors import ConfigurationError, CoordinationError
from tests.docs.blocks import blocks_of
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.clusters.coordination_helpers import job_paths


OLD, NEW = "etl:old-password", "etl:new-password"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "zookeeper-credentials.md"


def known_as(config: HaConfig, digest: str | None, also: str | None = None) -> HaConfig:
    values = config.model_dump(exclude_none=True) | {"digest_auth": digest, "digest_auth_also": also}
    return HaConfig.build(**values)


@contextmanager
def session(config: HaConfig, digest: str | None = None, also: str | None = None) -> Iterator[KazooCoordinator]:
    coordinator = KazooCoordinator.connect(known_as(config, digest, also))
    yield coordinator
    coordinator.close()


@pytest.fixture(autouse=True)
def open_root(config: HaConfig, coordinator: KazooCoordinator) -> None:
    """The tests of a process share a server: who makes its root node with credentials locks all others out."""
    coordinator.ensure(f"/{config.root}")


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the credentials of the command; ``None`` for none."""

    def to(digest: str | None, also: str | None = None) -> None:
        for name, value in (("SPARK_HA_DIGEST_AUTH", digest), ("SPARK_HA_DIGEST_AUTH_ALSO", also)):
            monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)

    return to


def base(config: HaConfig) -> str:
    return job_paths(config).cluster.base


def test_what_was_made_without_credentials_is_found_and_repaired(
    config: HaConfig, spark_ha: Any, credentials: Any
) -> None:
    with session(config) as anyone:
        anyone.ensure(f"{base(config)}/flights/runs")
    credentials(NEW)

    assert spark_ha("acl", "check")[0] == 1
    code, out, _ = spark_ha("acl", "repair", "--yes", "--json")

    document = json.loads(out)
    assert (code, document["nodes"], document["found"], document["left"]) == (0, 3, 3, 0)
    assert document["wrong"][0] == {"path": base(config), "acl": "world:anyone:rwcda", "refused": False}
    assert spark_ha("acl", "check")[0] == 0
    with session(config) as anyone, pytest.raises(ConfigurationError, match="refuses access"):
        anyone.get(f"{base(config)}/flights/runs")


def test_a_dry_run_changes_nothing(config: HaConfig, spark_ha: Any, credentials: Any) -> None:
    with session(config) as anyone:
        anyone.ensure(base(config))
        credentials(NEW)

        code, out, _ = spark_ha("acl", "repair", "--dry-run")

        assert (code, "1 would be set" in out) == (1, True)
        assert anyone.get(base(config)).data == b""


def test_nodes_of_an_old_password_are_named_and_no_hash_is_shown(
    config: HaConfig, spark_ha: Any, credentials: Any
) -> None:
    with session(config, OLD) as old:
        old.ensure(base(config))
    credentials(NEW, OLD)

    _, out, _ = spark_ha("acl", "check")

    assert "digest:etl:rwcda" in out
    assert not re.search(r"etl:[A-Za-z0-9+/]{27}=", out)


def test_nodes_that_refuse_us_are_found_and_left(config: HaConfig, spark_ha: Any, credentials: Any) -> None:
    with session(config, OLD) as old:
        old.ensure(base(config))
    credentials(NEW)

    check_code, out, err = spark_ha("acl", "check")
    repair_code, _, _ = spark_ha("acl", "repair", "--yes")

    assert (check_code, repair_code) == (1, 1)
    assert "refuses these credentials" in out
    assert "add the old credentials" in err


def test_without_credentials_nothing_is_repaired(config: HaConfig, spark_ha: Any, credentials: Any) -> None:
    with session(config) as anyone:
        anyone.ensure(base(config))
    credentials(None)

    code, _, err = spark_ha("acl", "repair", "--yes")

    assert (code, "no credentials" in err) == (64, True)


def test_a_cluster_that_does_not_exist_yet_has_nothing_wrong(spark_ha: Any, credentials: Any) -> None:
    credentials(NEW)

    assert (spark_ha("acl", "check")[0], spark_ha("acl", "repair", "--yes")[0]) == (0, 0)


def test_an_ensemble_that_does_not_answer_leaves_the_question_open(
    spark_ha: Any, credentials: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials(NEW)
    connect = vars(KazooCoordinator)["connect"].__func__
    monkeypatch.setattr(connect, "__kwdefaults__", {"timeout": 0.2})

    assert spark_ha("--zookeeper", "127.0.0.1:1", "acl", "check")[0] == 2


def test_a_wide_tree_is_read_in_windows(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kazoo_acls, "_AT_ONCE", 10)
    with session(config) as anyone, session(config, NEW) as owner:
        anyone.ensure(base(config))
        anyone.commit(*(Create(f"{base(config)}/node-{number}") for number in range(35)))

        report = repair(KazooAcls(owner), base(config))

        assert (report.nodes, len(report.wrong), report.left) == (36, 36, 0)


def test_nodes_that_appear_during_a_repair_are_repaired(config: HaConfig) -> None:
    with session(config) as anyone, session(config, NEW, None) as owner:
        anyone.ensure(f"{base(config)}/open")
        interrupted = Interrupted(owner, lambda: anyone.ensure(f"{base(config)}/later"))

        with session(config, NEW) as witness:
            repair(interrupted, base(config))
            assert check(KazooAcls(witness), base(config)).wrong == []


class Interrupted(KazooAcls):
    """Lets something happen after the first look, before anything is set."""

    def __init__(self, coordinator: KazooCoordinator, between: Any) -> None:
        super().__init__(coordinator)
        self._between = between

    def put(self, nodes: Any) -> None:
        between, self._between = self._between, lambda: None
        between()
        super().put(nodes)


class Stubborn(KazooAcls):
    """Another client sets back everything it sets, at once."""

    def put(self, nodes: Any) -> None:
        del nodes


def test_a_repair_that_somebody_undoes_ends_with_the_reason(config: HaConfig) -> None:
    with session(config) as anyone, session(config, NEW) as owner:
        anyone.ensure(base(config))

        with pytest.raises(CoordinationError, match="as fast as they are corrected"):
            repair(Stubborn(owner), base(config))


def test_an_acl_that_was_set_meanwhile_is_not_overwritten(config: HaConfig) -> None:
    with session(config) as anyone, session(config, NEW) as owner:
        anyone.ensure(base(config))
        ours = KazooAcls(owner)
        (seen,) = ours.look([base(config)])
        ours.put([seen])

        ours.put([NodeAcl(seen.path, seen.permissions, seen.version)])

        (after,) = ours.look([base(config)])
        assert after.version == seen.version + 1


def blocks_of_the_change() -> list[tuple[str, str]]:
    """Return the blocks of the page's steps, in order: (language, text)."""
    text = PAGE.read_text(encoding="utf-8")
    start = text[: text.index("## Change the password")].count("\n")
    return [(block.language, block.text) for block in blocks_of(PAGE) if block.line > start]


def test_the_steps_of_the_page_change_the_password_and_the_job_goes_on(
    config: HaConfig, spark_ha: Any, credentials: Any
) -> None:
    """Word for word what the page says; at every step the running leader publishes, and the command sees the job."""
    both, repair_both, new, repair_new = blocks_of_the_change()
    assert [both[0], repair_both[0], new[0], repair_new[0]] == ["text", "bash", "text", "bash"]
    credentials(OLD)

    with driver(config, OLD) as old_driver:
        goes_on(old_driver, 1, spark_ha)
        take(both[1], credentials)  # step 1
        goes_on(old_driver, 2, spark_ha)
    with driver(config, NEW, OLD) as both_driver:  # step 2
        goes_on(both_driver, 3, spark_ha)
        type_in(repair_both[1], spark_ha)  # step 3
        goes_on(both_driver, 4, spark_ha)
        take(new[1], credentials)  # step 4
        goes_on(both_driver, 5, spark_ha)
        type_in(repair_new[1], spark_ha)  # step 5
        goes_on(both_driver, 6, spark_ha)
        assert spark_ha("acl", "check")[0] == 1  # a driver that still knows both has made a node since
    with driver(config, NEW) as new_driver:
        goes_on(new_driver, 7, spark_ha)
        type_in(repair_new[1], spark_ha)
        goes_on(new_driver, 8, spark_ha)
    with session(config, OLD) as old, pytest.raises(ConfigurationError, match="refuses access"):
        old.children(base(config))


@contextmanager
def driver(config: HaConfig, digest: str, also: str | None = None) -> Iterator[Job]:
    with session(config, digest, also) as coordinator, led_job(known_as(config, digest, also), coordinator) as led:
        yield led


def goes_on(job: Job, number: int, spark_ha: Any) -> None:
    """Publish a checkpoint as the job's leader, and look at the job as the command does."""
    epoch = job.coordinator.get(job.paths.epoch)
    job.add(number, number)
    job.checkpoints.retain(job.leadership, 2)
    code, out, err = spark_ha("checkpoint", "list", "flights", "--json")

    assert (code, err) == (0, "")
    assert json.loads(out)["checkpoints"][0]["number"] == number
    assert job.coordinator.get(job.paths.epoch).version == epoch.version


def take(lines: str, credentials: Any) -> None:
    given = dict(line.split("=", 1) for line in lines.splitlines() if line)
    assert given.keys() <= {"SPARK_HA_DIGEST_AUTH", "SPARK_HA_DIGEST_AUTH_ALSO"}
    credentials(given["SPARK_HA_DIGEST_AUTH"], given.get("SPARK_HA_DIGEST_AUTH_ALSO"))


def type_in(lines: str, spark_ha: Any) -> None:
    for line in filter(None, lines.splitlines()):
        command, *words = line.split()
        assert command == "spark-ha"
        assert spark_ha(*words)[0] == 0, line


def test_what_a_session_with_two_passwords_makes_admits_both(config: HaConfig) -> None:
    with session(config, NEW, OLD) as both:
        both.ensure(base(config))

    for digest in (OLD, NEW):
        with session(config, digest) as one:
            assert one.get(base(config)).data == b""
