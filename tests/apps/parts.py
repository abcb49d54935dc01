"""Builds what the application ``everything`` needs and a repository does not hold: a zip, a wheel and a jar."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path


APPLICATION = Path(__file__).parent / "everything" / "app.py"

WHEEL = "from_wheel-1.0-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class Parts:
    """Files that travel with the application."""

    zip: Path
    wheel: Path
    jar: Path
    data_file: Path

    @property
    def py_files(self) -> tuple[str, str]:
        """What goes into ``--py-files``."""
        return str(self.zip), str(self.wheel)


# What the application has to find, apart from its arguments.
EXPECTED = {
    "sibling_module": "sibling module",
    "sibling_package": "sibling package",
    "zip": "zip",
    "zip_in_executor": "zip",
    "wheel": "wheel",
    "jar": "jar",
    "data_file": "data file",
}


def build(directory: Path) -> Parts:
    """Write the parts into *directory*."""
    directory.mkdir(parents=True, exist_ok=True)
    parts = Parts(
        zip=directory / "from_zip.zip",
        wheel=directory / WHEEL,
        jar=directory / "everything.jar",
        data_file=APPLICATION.parent / "words.txt",
    )
    _pack(parts.zip, {"from_zip.py": 'WORD = "zip"\n'})
    _pack(parts.wheel, _wheel("from_wheel", 'WORD = "wheel"\n'))
    _pack(parts.jar, {"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\n", "everything/word.txt": "jar"})
    return parts


def _wheel(name: str, module: str) -> dict[str, str]:
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    return files | {f"{info}/RECORD": "\n".join([*record, f"{info}/RECORD,,", ""])}


def _digest(content: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).decode().rstrip("=")


def _pack(target: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
