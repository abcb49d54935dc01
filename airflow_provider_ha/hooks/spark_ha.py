"""Hook that makes the client of a cluster from an Airflow connection of type ``spark_ha``.

Invariant: importing this module loads neither kazoo nor boto3; functions that need them import them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ha.airflow_side.compat import READS_CONNECTIONS_IN_LOOP
from airflow_provider_ha.airflow_side.compat.sdk import AirflowNotFoundException, BaseHook, mask_secret
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.hooks._connection import CONN_TYPE, config_of, secrets_of


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient


__all__ = ["SparkHaHook"]


DEFAULT_CONN_ID = "spark_ha_default"


class SparkHaHook(BaseHook):
    """Connect to the high-availability cluster of Spark jobs that a connection names.

    .. code-block:: python

        with SparkHaHook().get_client() as client:
            client.job("flights").snapshot().state

    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``: ZooKeeper hosts, storage root, cluster id.
    """

    conn_name_attr = "spark_ha_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = CONN_TYPE
    hook_name = "Spark HA"

    def __init__(self, spark_ha_conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spark_ha_conn_id = spark_ha_conn_id

    def get_config(self) -> HaConfig:
        """Read the connection.

        :raises ConfigurationError: The connection does not exist, has another type, or a field is missing or invalid.
        """
        try:
            connection = self.get_connection(self.spark_ha_conn_id)
        except AirflowNotFoundException:
            raise self._missing() from None
        extra = connection.extra_dejson
        for secret in secrets_of(connection, extra):
            mask_secret(secret)
        return config_of(connection, extra)

    async def aget_config(self) -> HaConfig:
        """Read the connection from an event loop, with the same result and errors as :meth:`get_config`."""
        if not READS_CONNECTIONS_IN_LOOP:
            # Through asgiref, because its threads know the triggerer's loop, through which older releases reach their
            # supervisor.
            from asgiref.sync import sync_to_async  # noqa: PLC0415  # only a triggerer needs it

            return await sync_to_async(self.get_config)()
        from airflow.sdk.log import amask_secret  # noqa: PLC0415  # older releases lack it

        try:
            connection = await self.aget_connection(self.spark_ha_conn_id)
        except AirflowNotFoundException:
            raise self._missing() from None
        extra = await connection.aextra_dejson()
        for secret in secrets_of(connection, extra):
            await amask_secret(secret)
        return config_of(connection, extra)

    def _missing(self) -> ConfigurationError:
        return ConfigurationError(
            f"Airflow has no connection {self.spark_ha_conn_id!r}",
            next_step="Correct spark_ha_conn_id, or add the connection, of type Spark HA, then clear the task",
        )

    def get_client(self) -> HaClient:
        """Open a session; the caller closes it (it is a context manager).

        :raises NotConnectedError: No ZooKeeper server answered.
        :raises ConfigurationError: The connection cannot be used.
        """
        from airflow_provider_ha.api.ha_client import HaClient  # noqa: PLC0415  # brings kazoo and boto3

        return HaClient.open(self.get_config())

    def get_conn(self) -> HaClient:
        """Return a client, as :meth:`get_client`, under the name that Airflow expects."""
        return self.get_client()

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """Return the extra fields of the form for Airflow 3.0 and 3.1; later releases read metadata."""
        from airflow_provider_ha.hooks._connection import form_widgets  # noqa: PLC0415  # only those releases need it

        return form_widgets()

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return the layout of the form's standard fields for the same releases."""
        from airflow_provider_ha.hooks._connection import field_behaviour  # noqa: PLC0415  # as above

        return field_behaviour()

    def test_connection(self) -> tuple[bool, str]:
        """Test the connection for the Test button: connect to ZooKeeper; write, read and remove a file in storage."""
        try:
            with self.get_client() as client:
                notes = client.check()
                config = client.config
        except HaError as error:
            return False, str(error)
        except Exception as error:  # noqa: BLE001  # the form shows a sentence, never a stack trace
            return False, f"{type(error).__name__}: {error}"
        answer = f"ZooKeeper {config.zookeeper} answers and {config.storage_root} is writable."
        return True, " ".join([answer, *(f"Note: {note}." for note in notes)])
