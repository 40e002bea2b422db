# SPDX-License-Identifier: Apache-2.0
"""The entries of a local cluster in the user's own kubeconfig, and the table of limits."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.repository import ROOT
from trainwright.controller.cli.local import clusters, status
from trainwright.controller.runtime.errors import ConfigurationError

MINE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "work", "cluster": {"server": "https://work"}}],
    "users": [{"name": "me", "user": {"token": "t"}}],
    "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me"}}],
    "current-context": "work",
    "preferences": {"colors": True},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """That of a cluster."""
    made = tmp_path / "a"
    made.mkdir()
    own = {
        "clusters": [{"name": "trainwright-a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "trainwright-a", "user": {"token": "secret"}}],
        "contexts": [{"name": "trainwright-a", "context": {"cluster": "trainwright-a", "user": "trainwright-a"}}],
        "current-context": "trainwright-a",
    }
    (made / "kubeconfig").write_text(yaml.safe_dump(own))
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """That of the user."""
    made = tmp_path / "config"
    made.write_text(yaml.safe_dump(MINE))
    return made


def content(file: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(file.read_text()))


def test_entries_come_and_go_and_the_rest_stays(folder: Path, file: Path) -> None:
    assert clusters.merge(folder, file, use_context=False) == "trainwright-a"
    found = content(file)
    assert [one["name"] for one in found["contexts"]] == ["work", "trainwright-a"]
    assert (found["current-context"], found["preferences"]) == ("work", {"colors": True})
    assert content(file.with_name("config.before-trainwright")) == MINE
    assert file.stat().st_mode & 0o777 == 0o600
    assert clusters.take_out(folder) == file
    assert content(file) == MINE
    assert clusters.take_out(folder) is None


def test_the_copy_keeps_the_comments_of_the_user(folder: Path, file: Path) -> None:
    text = "# from my admin, do not lose it\n" + file.read_text()
    file.write_text(text)
    for _ in range(2):
        clusters.merge(folder, file, use_context=False)
    clusters.take_out(folder)
    copy = file.with_name("config.before-trainwright")
    assert copy.read_text() == text
    file.write_text("# newer\n" + file.read_text())
    clusters.merge(folder, file, use_context=False)
    assert copy.read_text().startswith("# newer")


def test_the_context_of_before_is_current_again(folder: Path, file: Path) -> None:
    for _ in range(2):  # `up` twice is fine
        clusters.merge(folder, file, use_context=True)
    assert content(file)["current-context"] == "trainwright-a"
    assert len(content(file)["users"]) == 2
    clusters.take_out(folder)
    assert content(file) == MINE


def test_a_context_that_the_user_chose_later_stays(folder: Path, file: Path) -> None:
    clusters.merge(folder, file, use_context=True)
    file.write_text(yaml.safe_dump(content(file) | {"current-context": "work"}))
    clusters.take_out(folder)
    assert content(file)["current-context"] == "work"


def test_a_file_that_is_not_there_is_made_and_one_that_is_gone_is_left(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "config"
    clusters.merge(folder, file, use_context=True)
    assert content(file)["current-context"] == "trainwright-a"
    file.unlink()
    assert clusters.take_out(folder) == file
    assert not file.exists()


def test_a_link_stays_a_link(folder: Path, file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    clusters.merge(folder, link, use_context=False)
    assert link.is_symlink()
    assert len(content(file)["contexts"]) == 2


def test_what_is_locked_or_no_kubeconfig_stays_as_it_is(folder: Path, file: Path) -> None:
    lock = file.with_name("config.lock")
    lock.touch()
    with pytest.raises(ConfigurationError, match="locked by another program"):
        clusters.merge(folder, file, use_context=False)
    assert lock.exists()
    lock.unlink()
    for text in ("a: [", "- a", "kind: Pod", "clusters: {a: b}"):
        file.write_text(text)
        with pytest.raises(ConfigurationError):
            clusters.merge(folder, file, use_context=False)
        assert file.read_text() == text
    assert not lock.exists()
    with pytest.raises(ConfigurationError, match="own file"):
        clusters.merge(folder, folder / "kubeconfig", use_context=False)


def test_the_file_is_the_one_that_kubectl_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert clusters.user_file() == tmp_path / ".kube" / "config"
    monkeypatch.setenv("KUBECONFIG", ":/one:/two")
    assert clusters.user_file() == Path("/one")


def test_the_table_of_limits_is_that_of_the_docs() -> None:
    page = (ROOT / "docs" / "users" / "local.md").read_text()
    table = page.partition("| in a cluster | here |\n| --- | --- |\n")[2].partition("\n\n")[0]
    rows = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line.strip("| ")).replace("`", "") for line in table.splitlines()]
    assert rows == [" | ".join(one) for one in status.LIMITS.items()]
    assert max(len(line) for line in status.limits()) <= 120
