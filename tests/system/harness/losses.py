"""What was lost on a cluster, and the proof of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loss:
    """Proof of one loss, and the recovery after it.

    :param victim: What was lost, for people.
    :param is_of_driver: Whether the driver died with it: then a higher epoch has to follow, else the same one.
    :param in_flight: Queries that had planned a batch and not committed it.
    :param gone: Processes that existed before and did not exist afterwards.
    :param left: Processes that should not exist and did.
    :param proof: Who proved the death, as it was written down.
    :param epochs: Of the leader before and after.
    :param hosts: Of the driver before and after.
    :param seconds: Loss -> first new commit.
    :param rows_replayed: Input rows of the batches in flight, where a new driver reads them again.
    """

    victim: str
    is_of_driver: bool
    in_flight: tuple[str, ...]
    gone: tuple[int, ...]
    left: tuple[int, ...]
    proof: str
    epochs: tuple[int, int]
    hosts: tuple[str, str]
    seconds: float
    rows_replayed: int = 0

    @property
    def holds(self) -> bool:
        """Whether something was lost in the middle of a batch, wholly, and the job went on as it should."""
        before, after = self.epochs
        led = after > before if self.is_of_driver else after == before
        return bool(self.in_flight and self.gone and not self.left and self.proof and led)
