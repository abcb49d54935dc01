"""The end of a driver's Python, as an exit code. The supervisor records the code; the reason is in a file."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of a managed driver.

    Below 64, and not 1 or 2, which Python and shells use for themselves: a code in this list was set on purpose.
    """

    DONE = 0  # the run has a result
    FAILED = 10  # a query or the script failed; the restart strategy decides
    REFUSED = 11  # the run has the result FAILED: a restart cannot help
    NOT_ADMITTED = 12  # the run is over, or a newer submission leads
    LEADERSHIP_LOST = 13  # the lease ran out, or another epoch owns the job
    RESTART_WANTED = 14  # queries were stopped, but the stop could not be completed: start the run again
    JVM_GONE = 15  # the JVM has ended, so this process can no longer write for the job
    OUTAGE = 16  # storage or ZooKeeper did not answer before the script began: counts as no attempt
    DECISION_NEEDED = 18  # continuing may lose or repeat rows: the run waits for its user
    UNFIT = 19  # this host lacks something that another host had for the run: counts as no attempt
    CANCELED = 17  # canceled: the supervisor writes the result once all processes are dead
