"""The bench runs through, and its rows say what the contract asks for."""

from __future__ import annotations

import json
import subprocess
import sys


def test_the_bench_runs_quickly() -> None:
    done = subprocess.run([sys.executable, "-m", "hanare.bench", "--quick", "--json"], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["bench"] == "python" and len(told["rows"]) > 15
    for row in told["rows"]:
        assert row["value"] > 0 and row["unit"] == "us"
        # A peer that is not here is named, with the reason.
        assert "peer" not in row or row.get("peer_missing") or {"peer_value", "ratio", "goal", "met"} <= set(row)
    assert {row["peer"] for row in told["rows"] if "pages of 256 KiB" in row["case"]} >= {"Mooncake Store", "bare gets of one batch"}
    assert any("a[::16].sum()" in row["case"] for row in told["rows"])
