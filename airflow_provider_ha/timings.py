"""Timings for which each process may rely on its knowledge (design, contract 3), checked for consistency."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_ha.errors import ConfigurationError


__all__ = ["Timings"]


class Timings(BaseModel):
    """Times for which each process may rely on its knowledge (design, contract 3).

    :param session_timeout: T, seconds after which ZooKeeper releases the lock of a silent leader.
    :param heartbeat_interval: h, seconds between two guarded writes of the leader.
    :param heartbeat_timeout: Seconds until an unanswered heartbeat drops the connection.
    :param connect_timeout: Seconds for one attempt to connect to one server.
    :param margin: m, seconds by which the lease ends before T.
    :param tolerate_suspended: Let a leader work during an interruption of its connection, until its lease ends.
        ``False`` is the strict mode: an interruption of any length ends the leadership.
    """

    model_config = ConfigDict(frozen=True)

    session_timeout: float = Field(default=10.0, gt=0)
    heartbeat_interval: float = Field(default=1.0, gt=0)
    heartbeat_timeout: float = Field(default=1.0, gt=0)
    connect_timeout: float = Field(default=1.0, gt=0)
    margin: float = Field(default=0.5, ge=0)
    tolerate_suspended: bool = True

    def tolerated_cut(self, hosts: int) -> float:
        """Return the seconds for which a leader may be cut off without losing its job: T - 2h - m.

        :raises ConfigurationError: The figures contradict each other for an ensemble of *hosts* servers.
        """
        needed = 2 * self.heartbeat_interval + self.heartbeat_timeout + hosts * self.connect_timeout + self.margin
        cut = self.session_timeout - 2 * self.heartbeat_interval - self.margin
        if needed >= self.session_timeout:
            raise ConfigurationError(
                f"session timeout {self.session_timeout:g} s is too short for {hosts} ZooKeeper server(s): "
                f"2 x heartbeat interval + heartbeat timeout + servers x connect timeout + margin = {needed:g} s, "
                f"so a leader that is cut off could not try every server within the {max(cut, 0):g} s "
                "that its lease leaves it",
                next_step="Raise session_timeout or lower the other timings",
            )
        return cut

    def granted(self, seconds: float, hosts: int) -> Timings:
        """Return the timings with the session timeout that the servers granted.

        :raises ConfigurationError: The granted timeout is too short for the other figures.
        """
        timings = self.model_copy(update={"session_timeout": seconds})
        try:
            timings.tolerated_cut(hosts)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"ZooKeeper granted a session timeout of {seconds:g} s, not the {self.session_timeout:g} s "
                f"requested: {error.message}",
                next_step="Raise maxSessionTimeout (by default 20 ticks) on every server, or lower the other timings",
            ) from None
        return timings

    def check_tick(self, tick: float) -> None:
        """Check that half a tick of the servers is no longer than a heartbeat.

        A follower reports its clients to the leader twice a tick. Therefore the lease counts from the last heartbeat
        but one, and would be too long if a report could be older than a heartbeat.

        :param tick: ``tickTime`` of the servers, in seconds.
        :raises ConfigurationError: Half a tick is longer.
        """
        if tick / 2 > self.heartbeat_interval:
            raise ConfigurationError(
                f"half a tick of the ZooKeeper servers ({tick / 2:g} s) is longer than the heartbeat interval "
                f"({self.heartbeat_interval:g} s): a leader could rely on its lease for too long",
                next_step=f"Set tickTime to at most {int(2000 * self.heartbeat_interval)} ms, "
                "or raise heartbeat_interval",
            )
