"""A real Kafka: one broker from Maven's jars, and Spark's connector, both resolved once per machine.

Ivy lies among pyspark's jars, so nothing but Java is needed. Brokers listen on the loopback interface only.
"""

from __future__ import annotations

import fcntl
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.coordination.embedded import free_ports
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.secured_zookeeper import make_certificates


CACHE = Path(__file__).parents[3] / "build" / "test-cache" / "kafka"
IVY_CACHE = CACHE.parent / "ivy" / "cache"
BROKER = "4.3.1"
CONNECTOR = "4.2.0"
USER, PASSWORD = "planner", "kafka-secret"
RESOLVE_TIMEOUT = 900  # seconds; the first time fetches 54 MB
# The connector's own dependencies do not all exist in one release, so each jar is named.
IVY_FILE = f"""<ivy-module version="2.0">
  <info organisation="tests" module="kafka"/>
  <configurations><conf name="broker"/><conf name="spark"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{BROKER}" conf="broker->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="broker->default"/>
    <dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="{CONNECTOR}" conf="spark->default"
      transitive="false"/>
    <dependency org="org.apache.spark" name="spark-token-provider-kafka-0-10_2.13" rev="4.1.0-preview1"
      conf="spark->default" transitive="false"/>
    <dependency org="org.apache.kafka" name="kafka-clients" rev="3.9.1" conf="spark->default" transitive="false"/>
    <dependency org="org.apache.commons" name="commons-pool2" rev="2.13.1" conf="spark->default" transitive="false"/>
  </dependencies>
</ivy-module>
"""
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},LOGIN://127.0.0.1:{login},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},LOGIN://127.0.0.1:{login}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL,CONTROLLER:PLAINTEXT
listener.name.login.sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  user_{user}="{password}";
listener.name.login.ssl.keystore.type=PEM
listener.name.login.ssl.keystore.location={certificate}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@dataclass(frozen=True)
class Kafka:
    """A running broker.

    :param servers: What clients connect to.
    :param login_servers: The same broker for those who log in over TLS, as :data:`USER`.
    :param authority: Certificate that its own is signed by.
    """

    servers: str
    login_servers: str
    authority: Path

    def login(self, password: str) -> dict[str, str]:
        """Return the client properties of who logs in with that password."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority),
        }

    @cached_property
    def admin(self) -> Any:
        """Return a client for what only an administrator does."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": "2"})

    def new_topic(self, partitions: int = 1) -> str:
        """Make a topic that no other test uses and return its name."""
        name = f"t-{uuid.uuid4().hex[:12]}"
        self.make_topic(name, partitions)
        return name

    def make_topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic of that name."""
        from confluent_kafka.admin import NewTopic

        (made,) = self.admin.create_topics([NewTopic(name, partitions, 1)]).values()
        made.result(60)
        wait_until(lambda: name in self.admin.list_topics(timeout=30).topics, timeout=60, what=f"topic {name}")

    def delete_topic(self, name: str) -> None:
        """Remove a topic."""
        (removed,) = self.admin.delete_topics([name]).values()
        removed.result(60)
        wait_until(lambda: name not in self.admin.list_topics(timeout=30).topics, timeout=60, what="the removal")

    def add(self, topic: str, rows: int, partition: int = 0) -> None:
        """Write rows into one partition."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "log_level": "2"})
        for number in range(rows):
            producer.produce(topic, value=str(number), partition=partition)
        assert producer.flush(60) == 0

    def values(self, topic: str, partition: int = 0) -> list[str]:
        """Return what is in one partition, from its first row to its last."""
        from confluent_kafka import Consumer, TopicPartition

        reader = Consumer({"bootstrap.servers": self.servers, "group.id": uuid.uuid4().hex, "log_level": "2"})
        try:
            place = TopicPartition(topic, partition)
            first, end = reader.get_watermark_offsets(place, timeout=30)
            reader.assign([TopicPartition(topic, partition, first)])
            return [message.value().decode() for message in reader.consume(end - first, 60)] if end > first else []
        finally:
            reader.close()

    def forget(self, topic: str, before: int, partition: int = 0) -> None:
        """Do at once what retention does in time: remove every row below offset *before*."""
        from confluent_kafka import TopicPartition

        (removed,) = self.admin.delete_records([TopicPartition(topic, partition, before)]).values()
        assert removed.result(60).low_watermark == before


def connector_jars() -> str:
    """Return Spark's connector for ``spark.jars``."""
    return ",".join(str(path) for path in sorted((_jars() / "spark").glob("*.jar")))


@contextmanager
def broker() -> Iterator[Kafka]:
    """Yield a running Kafka without topics."""
    jars = _jars() / "broker"
    with tempfile.TemporaryDirectory(prefix="broker-", dir=CACHE) as folder:
        port, login, controller = free_ports(3)
        certificates = make_certificates(Path(folder) / "certificates")
        properties = Path(folder) / "server.properties"
        ports = {"port": port, "login": login, "controller": controller}
        known = {"user": USER, "password": PASSWORD, "certificate": certificates.server}
        properties.write_text(PROPERTIES.format(folder=folder, **ports, **known), encoding="utf-8")
        java = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m", "-cp", f"{jars}/*"]
        log = Path(folder) / "log"
        with log.open("wb") as output:
            formatted = [
                *java,
                "kafka.tools.StorageTool",
                "format",
                "-t",
                "c2Z2Y2t1cnNlc3Rlc3Rpbg",
                "-c",
                str(properties),
            ]
            subprocess.run(formatted, check=True, stdout=output, stderr=output, timeout=120)
            process = subprocess.Popen([*java, "kafka.Kafka", properties], stdout=output, stderr=output)
        try:
            wait_until(lambda: _answers(port) or process.poll() is not None, timeout=120, what="the broker")
            assert process.poll() is None, log.read_text(encoding="utf-8")[-4000:]
            yield Kafka(f"127.0.0.1:{port}", f"127.0.0.1:{login}", certificates.authority)
        finally:
            process.kill()
            process.wait()


@cache
def _jars() -> Path:
    """Return the directory of all jars; skips the test where they cannot be had."""
    made = CACHE / f"jars-{BROKER}-{CONNECTOR}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _resolve(made)
    return made


def _resolve(target: Path) -> None:
    import pyspark

    ivy = max((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory(prefix="resolve-", dir=CACHE) as folder:
        wanted = Path(folder) / "ivy.xml"
        wanted.write_text(IVY_FILE, encoding="utf-8")
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", str(ivy), "org.apache.ivy.Main", "-cache", str(IVY_CACHE)]
        command += ["-ivy", str(wanted), "-confs", "broker", "spark", "-types", "jar", "bundle"]
        command += ["-retrieve", f"{folder}/jars/[conf]/[artifact]-[revision].[ext]"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=RESOLVE_TIMEOUT)
        if done.returncode or not (Path(folder) / "jars" / "broker").exists():
            pytest.skip(f"Kafka's jars could not be resolved: {(done.stdout + done.stderr)[-1500:]}")
        shutil.move(Path(folder) / "jars", target)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
