"""README.md shows what people see: its sample is cut from the output of the audit that it tells them to run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]


def test_the_sample_of_the_readme_is_what_the_audit_prints_in_this_order(tmp_path: Path) -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (sample,) = re.findall(r"```\n(Leakage: .*?)```", readme, re.DOTALL)
    command = re.search(r"\$\(BIN\)/radar (audit .*?);", (REPOSITORY / "Makefile").read_text(encoding="utf-8"))
    assert command
    done = subprocess.run(
        [Path(sys.executable).with_name("radar"), *command[1].split()],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in {"RADAR_WORKSPACE", "FORCE_COLOR"}},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode in {0, 1, 3}, done.stderr
    rest = iter(done.stdout.splitlines())
    for shown in (line for line in sample.splitlines() if line != "…"):
        assert any(line.startswith(shown) for line in rest), f"not in the output, or not there: {shown}"
