"""The run of the demo: what happens to the job, and that it happens through DAGs.

The job is changed by DAG runs alone (submit, savepoint, stop, restore, cancel); the harness feeds, kills, damages, and
looks. The steps are those of the issue that asked for the demo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from tests.system.harness import phases
from tests.system.harness.display import Display
from tests.system.harness.feeder import Feeder
from tests.system.harness.flights import flights_csv, read_year
from tests.system.harness.report import Phase, Report
from tests.system.harness.servers import Servers
from tests.system.harness.stage import Stage


@dataclass(frozen=True, slots=True)
class Story:
    """What a demo does.

    :param phases: Title and function of each step, which gets the stage.
    :param stage: Makes the place where it happens.
    """

    phases: tuple[tuple[str, Callable[[Any, Phase], None]], ...]
    stage: Callable[..., Stage] = Stage


PHASES = (
    ("Airflow and ZooKeeper start", phases.wait_for_servers),
    ("submit (flight_delays)", phases.submit),
    ("savepoint while it runs (scheduled_savepoint)", phases.savepoint),
    ("kill -9 of the driver's Python", phases.kill_python),
    ("kill -9 of the driver's JVM", phases.kill_jvm),
    ("stop with a checkpoint (stop_job)", phases.suspend),
    ("the newest checkpoint is damaged", phases.damage),
    ("restore the latest good one (disaster_recovery)", phases.restore_after_damage),
    ("restore the savepoint as two other jobs (disaster_recovery)", phases.restore_savepoint),
    ("cancel one of them (stop_job)", phases.cancel),
    ("terminate, every open window is emitted (stop_job)", phases.terminate),
    ("go on after the end (disaster_recovery)", phases.go_on),
    ("compare with the truth", phases.compare),
)
MAIN = Story(PHASES)


class Scenario:
    """One run of the demo.

    :param servers: Prepared, not started.
    :param report: Gets what the phases find.
    :param story: What happens; by default that of ``make demo``.
    """

    def __init__(self, servers: Servers, report: Report, console: Console, story: Story = MAIN) -> None:
        self._story = story
        self._servers = servers
        self._report = report
        self._console = console

    def run(self) -> None:
        """Run every phase. The first one that fails ends the run."""
        self._servers.start()  # takes half a minute, in which the data is read
        data = self._servers.home / "data"
        data.mkdir()
        csv = data / "flights.csv"
        csv.write_bytes(flights_csv())
        feeder = Feeder(read_year(csv.read_bytes()), data / "in")
        with Display(self._console, phases=len(self._story.phases), fed=lambda: feeder.fed) as display:
            stage = self._story.stage(self._servers, feeder, self._report, display.say, data)
            try:
                self._play(stage, display)
            finally:
                feeder.pause()
                stage.close()

    def _play(self, stage: Stage, display: Display) -> None:
        for title, play in self._story.phases:
            with display.phase(title), self._report.phase(title) as phase:
                play(stage, phase)
            display.say(phase.found)
