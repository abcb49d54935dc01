"""Prometheus' statsd_exporter, the real program, with the options of docs/how-to/metrics.md."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from airflow_provider_ha.coordination.embedded import free_port
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.go_program import GoProgram
from tests.support.receivers import LOOPBACK


PROGRAM = GoProgram("statsd_exporter", "github.com/prometheus/statsd_exporter", "v0.31.0")
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "metrics.md"
Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Exporter:
    """A running statsd_exporter.

    :param port: Where it receives StatsD.
    :param metrics: Address that Prometheus reads.
    """

    port: int
    metrics: str

    def gauges(self, prefix: str) -> dict[tuple[str, Labels], float]:
        """Return what it serves now under names with a prefix."""
        text = httpx.get(self.metrics).raise_for_status().text
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if prefix in sample.name
        }


@contextmanager
def statsd_exporter(files: Path) -> Iterator[Exporter]:
    """Run the command of the documentation on ports of the loopback.

    :param files: Where ``spark-ha metrics files`` has put the mappings.
    """
    port, web = free_port(), free_port()
    command = [str(PROGRAM.built()), *documented(files, port), f"--web.listen-address={LOOPBACK}:{web}"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        served = Exporter(port, f"http://{LOOPBACK}:{web}/metrics")
        try:
            wait_until(lambda: _answers(served) or process.poll() is not None, timeout=30, what="statsd_exporter")
            log.seek(0)
            assert process.poll() is None, log.read().decode()
            yield served
        finally:
            process.kill()
            process.wait()


def documented(files: Path, port: int) -> list[str]:
    """Return the options that the how-to names, with the port and the folder of a test in place of those named."""
    (line,) = re.findall(r"^statsd_exporter (.+)$", HOW_TO.read_text(encoding="utf-8"), re.MULTILINE)
    options = dict(option.split("=", 1) for option in shlex.split(line))
    mappings = files / Path(options["--statsd.mapping-config"]).name
    own = {"--statsd.listen-udp": f"{LOOPBACK}:{port}", "--statsd.mapping-config": str(mappings)}
    assert set(own) <= set(options)
    return [f"{name}={value}" for name, value in (options | own).items()]


def _answers(served: Exporter) -> bool:
    try:
        return httpx.get(served.metrics).is_success
    except httpx.TransportError:
        return False
