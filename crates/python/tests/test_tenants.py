"""Two services of one user, each with a tenant of its own: the same names, and nothing in common."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import hanare
from hanare import _node, errors


def tenant(folder: Path, name: str) -> Path:
    """Make a tenant of the pool, and return its file."""
    file = folder / f"{name}.key"
    subprocess.run([_node.program(), "tenant", "create", name, "--key-file", str(file)], check=True, capture_output=True)
    return file


def test_two_services_of_one_user_do_not_meet(pool: hanare.Pool, nodes: _node.Nodes, tmp_path: Path, name: str) -> None:
    one, two = (hanare.connect(nodes.sockets[at], tenant=tenant(tmp_path, f"{name}.{at}")) for at in range(2))
    for service, value in ((one, 1.0), (two, 2.0)):
        service.full(8, value, name="weights")
        hanare.Dict("settings", pool=service)["who"] = str(value)
        store = hanare.Store("cache", pool=service, bytes=1 << 16)
        store.put("who", str(value).encode())
    for service, value in ((one, 1.0), (two, 2.0)):
        assert np.array_equal(service.open("weights"), np.full(8, value))
        assert hanare.Dict("settings", pool=service)["who"] == str(value)
        assert hanare.Store("cache", pool=service, bytes=1 << 16).get("who") == str(value).encode()
        with pytest.raises(errors.UnknownRegion):
            pool.open("weights")
    with one.lock("turn"), two.lock("turn"):
        pass
    assert hanare.connect(nodes.sockets[0], tenant=tmp_path / f"{name}.0.key") is one
    text = (tmp_path / f"{name}.0.key").read_text().rstrip()
    (tmp_path / "other.key").write_text(text[:-1] + ("1" if text.endswith("0") else "0"))
    os.chmod(tmp_path / "other.key", 0o600)
    with pytest.raises(errors.TenantRefused, match="hanare tenant key") as refused:
        hanare.connect(nodes.sockets[0], tenant=tmp_path / "other.key")
    assert isinstance(refused.value, PermissionError)
    with pytest.raises(errors.BadSetting, match="no such"):
        hanare.connect(nodes.sockets[0], tenant="/no such")
