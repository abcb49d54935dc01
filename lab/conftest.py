"""The fixture that the laboratory's tests share with all others."""

from __future__ import annotations

from tests.conftest import tell


__all__ = ["tell"]
