"""What the user reads when S3 cannot be used: the endpoint, the reason, the next step, and no key."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ConfigurationError, StorageUnavailableError
from airflow_provider_ha.storage.limits import S3Limits
from airflow_provider_ha.storage.object_store import ObjectInfo
from airflow_provider_ha.storage.s3_store import S3Store
from tests.support.s3.s3_faults import FOR_EVER, Fault, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access, any_server, real_server


pytestmark = pytest.mark.timeout(120, func_only=True)  # the first test may have to build the server

QUICK = S3Limits(connect_timeout=1, read_timeout=1, attempts=2, deadline=10)
WRONG_SECRET = "wrong-secret-0123456789+/abcdefghijklmno"

CALLS: dict[str, Callable[[S3Store, Path], object]] = {
    "read": lambda store, _: store.read("a"),
    "create": lambda store, _: store.create("a", b"1"),
    "upload": lambda store, folder: store.upload("a", folder / "source"),
    "download": lambda store, folder: store.download("a", folder / "target"),
    "copy": lambda store, _: store.copy(ObjectInfo("a", 1), "b"),
    "info": lambda store, _: store.info("a"),
    "list": lambda store, _: list(store.list("")),
    "touch": lambda store, _: store.touch("a"),
    "probe": lambda store, _: store.check_writable(),
}


@pytest.fixture(scope="module")
def real() -> Iterator[S3Access]:
    """A server that checks signatures."""
    with real_server() as access:
        yield access


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Access]:
    with any_server() as access:
        yield access


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_secret_is_an_error_that_does_not_tell_it(
    real: S3Access, call: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "source").write_bytes(b"1")
    options = S3Options(endpoint_url=real.endpoint, access_key=real.access_key, secret_key=WRONG_SECRET)
    store = S3Store(f"s3://{real.new_bucket()}", options)

    with caplog.at_level(logging.DEBUG), pytest.raises(StorageUnavailableError) as raised:
        CALLS[call](store, tmp_path)

    error = raised.value
    shown = [str(error), repr(error), "".join(traceback.format_exception(error)), caplog.text, repr(options)]
    assert not [text for text in shown if WRONG_SECRET in text]
    assert real.endpoint in str(error)
    assert "credentials" in error.next_step or "secret key" in error.next_step
    assert caplog.text, "nothing was logged: the test would not see a secret there"


def test_a_wrong_secret_is_told_from_a_missing_object(real: S3Access) -> None:
    """An answer that says no is no answer about the object."""
    options = S3Options(endpoint_url=real.endpoint, access_key=real.access_key, secret_key=WRONG_SECRET)

    with pytest.raises(StorageUnavailableError, match="SignatureDoesNotMatch"):
        S3Store(f"s3://{real.new_bucket()}", options).read("a")


@pytest.mark.parametrize("field", ["access_key", "secret_key"])
def test_a_key_that_was_pasted_with_its_line_end_is_a_mistake_and_not_told(field: str) -> None:
    """The client library would quote the header that it cannot send, or a server say that the signature is wrong."""
    keys = {"access_key": "AKIA", "secret_key": "secret", field: f"{WRONG_SECRET}\n"}

    with pytest.raises(ConfigurationError, match=field.replace("_", " ")) as raised:
        S3Store("s3://bucket", S3Options(endpoint_url="http://127.0.0.1:1", **keys))

    assert WRONG_SECRET not in str(raised.value)


def test_a_key_in_the_text_of_the_client_library_is_not_told(s3: S3Access) -> None:
    """A server may quote what it got."""
    quoting = Fault(lambda exchange: exchange.refuse(403, f"Unknown{s3.access_key}"), "GET", times=FOR_EVER)

    with s3_proxy(s3.endpoint, quoting) as proxied, pytest.raises(StorageUnavailableError) as raised:
        S3Store("s3://bucket", s3.options(proxied), QUICK).read("a")

    told = "".join(traceback.format_exception(raised.value))
    assert s3.access_key not in told
    assert "Unknown***" in told


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId", "RequestTimeTooSkewed", "AccessDenied"])
def test_what_s3_refuses_has_its_next_step(s3: S3Access, code: str) -> None:
    refused = Fault(refuse(403, code), "GET", times=FOR_EVER)

    with s3_proxy(s3.endpoint, refused) as proxied, pytest.raises(StorageUnavailableError, match=code) as raised:
        S3Store("s3://bucket", s3.options(proxied), QUICK).read("a")

    assert any(word in raised.value.next_step for word in ("expired", "clock", "permit"))


@pytest.mark.parametrize("call", ["read", "create", "upload", "info", "list", "probe"])
def test_an_endpoint_where_nobody_listens_is_named(call: str, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"1")
    with no_server() as endpoint, pytest.raises(StorageUnavailableError) as raised:
        CALLS[call](S3Store("s3://bucket", S3Access(endpoint, "key", "secret").options(), QUICK), tmp_path)

    assert endpoint in str(raised.value)


@pytest.mark.parametrize("call", ["info", "list", "probe"])
def test_an_endpoint_that_is_something_else_is_named(call: str, tmp_path: Path) -> None:
    """A web page answers with 200: a listing of it is not empty, and the probe does not believe its objects."""
    with web_page() as endpoint, pytest.raises(StorageUnavailableError) as raised:
        CALLS[call](S3Store("s3://bucket", S3Access(endpoint, "key", "secret").options(), QUICK), tmp_path)

    assert endpoint in str(raised.value)


def test_an_endpoint_that_is_no_url_is_a_mistake_of_the_configuration() -> None:
    with pytest.raises(ConfigurationError, match="minio:9000"):
        S3Store("s3://bucket", S3Options(endpoint_url="minio:9000")).read("a")


def test_an_endpoint_with_credentials_in_it_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError) as raised:
        S3Store("s3://bucket", S3Options(endpoint_url=f"http://user:{WRONG_SECRET}@minio:9000"))

    assert WRONG_SECRET not in str(raised.value)


def test_no_credentials_at_all_are_said_to_be_missing(s3: S3Access, monkeypatch: pytest.MonkeyPatch) -> None:
    no_chain(monkeypatch)

    with pytest.raises(StorageUnavailableError, match="credentials"):
        S3Store("s3://bucket", S3Options(endpoint_url=s3.endpoint), QUICK).read("a")


def test_what_the_options_do_not_have_comes_from_the_chain(real: S3Access, monkeypatch: pytest.MonkeyPatch) -> None:
    no_chain(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", real.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", real.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", real.secret_key)
    store = S3Store(f"s3://{real.new_bucket()}", S3Options())

    store.create("a", b"1")

    assert store.read("a") == b"1"


def test_an_endpoint_of_the_chain_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    store = S3Store("s3://bucket", S3Options(access_key="AKIA", secret_key=WRONG_SECRET), QUICK)

    with no_server() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        with pytest.raises(StorageUnavailableError) as raised:
            store.read("a")

    assert f"(endpoint {endpoint})" in str(raised.value)


def no_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the tests' own host may have."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")


@contextmanager
def no_server() -> Iterator[str]:
    """Yield the URL of a port where no server listens."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        port = server.server_port
    yield f"http://127.0.0.1:{port}"


@contextmanager
def web_page() -> Iterator[str]:
    """Yield the URL of a server that is no S3."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = b"<!doctype html><title>Welcome</title><p>Hello & welcome"
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_PUT = do_DELETE = do_POST = do_GET  # noqa: N815  # the names are the protocol of http.server

        def log_message(self, *_: object) -> None:
            """Be silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
