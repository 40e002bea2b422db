# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin in other environments: without the extra, and before the programs exist."""

import subprocess
import sys
from pathlib import Path

import pytest

from trainwright.controller.runtime import testing

# What `python -m pytest` does, in an environment without the extra's packages.
WITHOUT_EXTRA = """
import sys
sys.modules["cryptography"] = None
import pytest
raise SystemExit(pytest.main(["-p", "no:cacheprovider", "-p", "no:randomly"]))
"""
PLAIN = "def test_plain():\n    pass\n"
USES = "def test_uses_{fixture}({fixture}):\n    pass\n"


def run(folder: Path, text: str, *, program: str = "import pytest; raise SystemExit(pytest.main())") -> str:
    """What pytest printed about a project of one file, as one text."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider -p no:randomly\n")
    command = [sys.executable, "-u", "-c", program]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120
    )
    return done.stdout


def test_without_the_extra_other_tests_run_and_the_fixtures_say_what_to_install(tmp_path: Path) -> None:
    output = run(tmp_path, PLAIN + USES.format(fixture="control_plane"), program=WITHOUT_EXTRA)
    assert "1 passed, 1 error" in output
    assert "-m pip install 'cryptography>=" in output
    assert "Traceback" not in output


def test_every_name_of_the_package_is_found_when_it_is_asked_for() -> None:
    names = set(vars(testing)["__all__"])
    assert {getattr(testing, name).__name__ for name in names} == names
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = testing.Nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("fixture", ["control_plane", "cluster"])
def test_the_programs_are_built_before_the_first_test_and_in_sight(
    fixture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text('#!/bin/sh\n[ "$1" = env ] && echo go1.99.0 && exit\necho undefined: x >&2\nexit 1\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    namespace = {"control_plane": "namespace", "cluster": "cluster_namespace"}[fixture]
    output = run(tmp_path, PLAIN + USES.format(fixture=fixture) + USES.format(fixture=namespace))
    assert output.index("building etcd v3.6.5 …\n") < output.index("test_it.py .EE")
    # Nobody tries again what has just failed.
    assert output.count("building etcd v3.6.5 …\n") == 1
    assert "undefined: x" in output
    assert "1 passed, 2 errors" in output


@pytest.mark.parametrize("arguments", ["'--collect-only'", "'-k', 'plain'"])
def test_nothing_is_built_for_tests_that_are_not_run(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    program = f"import pytest; raise SystemExit(pytest.main([{arguments}]))"
    output = run(tmp_path, PLAIN + USES.format(fixture="control_plane"), program=program)
    assert "test_plain" in output or "1 passed" in output
    assert not (tmp_path / "cache").exists()
