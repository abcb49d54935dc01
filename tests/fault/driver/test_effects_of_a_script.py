"""Effects of a script outside of its queries: a standby driver has none before it leads, then those of a cold start.

The script sends a request, writes with a batch job, makes a second session, starts one query twice, reads a source in
Python that is told about commits, and a directory whose files Spark moves away (``tests/apps/driver/recorded.py``).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import APPS, PATIENCE, Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.hours, pytest.mark.timeout(1200)]
ORDER = ["module", "request", "session", "write", "start", "start", "wait"]
REPEATED = ("foreachBatch", "source commit")


@dataclass
class Receiver:
    """A server that counts requests."""

    url: str = ""
    requests: list[str] = field(default_factory=list)


@contextmanager
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.requests.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found.url = f"http://127.0.0.1:{server.server_port}/"
        yield found
        server.shutdown()


@dataclass(frozen=True)
class Effects:
    """What the script has noted, in order, of each submission."""

    file: Path

    def of(self, submission: str) -> list[tuple[str, Any]]:
        """Return the effects of a submission."""
        lines = map(json.loads, self.file.read_text().splitlines()) if self.file.exists() else ()
        return [(line["what"], line["value"]) for line in lines if line["by"] == submission]

    def once(self, submission: str) -> list[str]:
        """Return the effects that a start has once."""
        return [what for what, _ in self.of(submission) if what not in REPEATED]

    def values(self, submissions: Sequence[str]) -> list[int]:
        """Return the values that these gave to ``foreachBatch``, each batch once."""
        batches = {
            value[0]: value[1] for each in submissions for what, value in self.of(each) if what == "foreachBatch"
        }
        return sorted(value for values in batches.values() for value in values)


def newest(job: SupervisedJob) -> str:
    view = job.run.newest
    assert view is not None
    return view.submission.submission_id


def test_a_standby_driver_has_the_effects_of_a_script_only_when_it_leads(client: HaClient, tmp_path: Path) -> None:
    options = HaOptions(checkpoint_interval=0, standby_drivers=1, class_archive=False)
    job = SupervisedJob(client, Stream(tmp_path), ("files",), options=options, repeatable=("files",))
    effects, output = Effects(tmp_path / "notes"), tmp_path / "output"
    job.stream.feed(2)
    with receiver() as server:
        job.submit_script(APPS / "recorded.py", [str(job.stream.source), str(output), str(effects.file), server.url])
        wait_until(lambda: newest_effects(job, effects) == ORDER, timeout=PATIENCE, what="the start of the script")
        leader, standby = newest(job), job.await_standby().standby_id

        assert effects.of(standby) == []
        assert len(server.requests) == 1

        job.jvm().kill()
        job.await_takeover(2)
        job.stream.feed(1)
        wait_until(lambda: effects.once(standby) == ORDER, timeout=PATIENCE, what="the same effects again")
        wait_until(lambda: len(effects.values([leader, standby])) == 6, timeout=PATIENCE, what="the rows of all files")

    assert len(server.requests) == 2
    assert ("session", ["7", 1]) in effects.of(leader)
    assert ("session", ["7", 2]) in effects.of(standby), "its conf, and the epoch of the takeover"
    assert ("wait", False) in effects.of(standby), "no query of the warm-up has ended for it"
    assert set(effects.values([leader, standby])) == {value for _, value in job.stream.expected_rows(3)}
    assert all(value == 5 for each in (leader, standby) for what, value in effects.of(each) if what == "source commit")
    written = (output / "written").glob("part-*")
    assert sum(len(path.read_text().splitlines()) for path in written) == 6, "three rows for each start"


def newest_effects(job: SupervisedJob, effects: Effects) -> list[str]:
    return effects.once(newest(job))
