"""Why a machine makes no hosts, which is said where tests on them are left out."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.cluster.hosts import missing


def test_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"nsenter": "/bin/nsenter", "mount": "/bin/mount"}
    monkeypatch.setattr(shutil, "which", there.get)
    assert missing() == "without ip and unshare"


def test_a_user_that_is_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert missing() == "without root"
