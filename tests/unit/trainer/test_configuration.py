# SPDX-License-Identifier: Apache-2.0
"""The manager's Configuration file: strict, and every problem at once."""

import asyncio
import io
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import cases
from trainwright.controller.cli.configuration import load_configuration, load_settings
from trainwright.controller.cli.main import main
from trainwright.controller.cli.manager import ConfigurationFollower, LogFlags
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.manager.logs import JSONFormatter, TextFormatter
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.assembly.features import CREATED_CONDITION

CASES = cases(__file__)

HEAD = "apiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "configuration.yaml"
    path.write_text(text)
    return path


def test_no_file_and_an_empty_one_are_all_defaults(tmp_path: Path) -> None:
    defaults = load_configuration(None)
    assert defaults.health is not None
    assert defaults.health.health_probe_bind_address == ":8081"
    assert load_configuration(written(tmp_path, "")) == defaults
    assert load_configuration(written(tmp_path, HEAD)).health == defaults.health


def test_what_takes_effect_is_read(tmp_path: Path) -> None:
    text = HEAD + (
        "health: {healthProbeBindAddress: '127.0.0.1:9'}\n"
        "controller: {groupKindConcurrency: {TrainJob.trainer.kubeflow.org: 3}}\n"
        "plugins: {disabled: [MPI]}\n"
    )
    configuration = load_configuration(written(tmp_path, text))
    assert configuration.health is not None
    assert configuration.health.health_probe_bind_address == "127.0.0.1:9"
    assert configuration.controller is not None
    assert configuration.controller.group_kind_concurrency == {"TrainJob.trainer.kubeflow.org": 3}
    assert configuration.plugins is not None
    assert configuration.plugins.disabled == ["MPI"]


@pytest.mark.parametrize(("text", "message"), CASES["a_file_that_is_something_else_is_refused"])
def test_a_file_that_is_something_else_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_configuration(written(tmp_path, text))


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "configuration.yaml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"configuration\.yaml is not UTF-8 text$"):
        load_configuration(path)


def test_unknown_and_ineffective_fields_are_named_together(tmp_path: Path) -> None:
    text = HEAD + "webhook: {prot: 1, host: localhost}\nmetrix: {}\ntls: {minVersion: '1.1', nextProtos: [h2]}\n"
    with pytest.raises(ConfigurationError) as error:
        load_settings(written(tmp_path, text), {})
    fields = [line.split(": ", 2)[1] for line in str(error.value).splitlines()]
    assert fields == ["webhook.prot", "metrix", "tls.minVersion", "tls.nextProtos[0]"]


def test_values_of_wrong_types_are_named_together(tmp_path: Path) -> None:
    text = (
        "webhook: {prot: 1, port: a}\nhealth: {healthProbeBindAddress: 5}\nplugins: {disabled: [1, 2]}\n"
        "featureGates: {A: 7}\ntls: {minVersion: '1.1'}\n"
    )
    with pytest.raises(ConfigurationError) as error:
        load_settings(written(tmp_path, HEAD + text), {})
    fields = [line.split(": ", 2)[1] for line in str(error.value).splitlines()]
    assert fields == [
        "webhook.prot",
        "webhook.port",
        "health.healthProbeBindAddress",
        "plugins.disabled[0]",
        "featureGates[...]",
        "tls.minVersion",
    ]


def test_gates_of_the_command_line_go_before_those_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD + "featureGates: {CreatedCondition: true, AllBeta: false}\n")
    assert not load_settings(path, {"CreatedCondition": False}).features
    assert load_settings(path, {}).features == {CREATED_CONDITION}


@pytest.mark.parametrize(("arguments", "message"), CASES["wrong_flags_are_wrong_use"])
def test_wrong_flags_are_wrong_use(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["manager", *arguments])
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("url", ["foo", "http://127.0.0.1:1", "https://127.0.0.1", "https://h:x", "https://h:1/path"])
def test_a_webhook_url_that_is_none_is_wrong_use(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["manager", "--webhook-url", url])
    assert exit_info.value.code == 2
    assert f"{url!r} must have the form https://HOST:PORT" in capsys.readouterr().err


def test_an_api_server_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    cluster = {"server": "https://127.0.0.1:9", "insecure-skip-tls-verify": True}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(kubeconfig))
    command = [sys.executable, "-m", "trainwright.controller.cli.main", "manager", f"--kubeconfig={path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    _, line = done.stderr.splitlines()  # what is started, and why it is not
    assert "cannot connect to 127.0.0.1:9" in line


def test_the_command_says_it_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manager", "--config", str(tmp_path / "missing.yaml")]) == 1
    assert "error: cannot read" in capsys.readouterr().err
    assert main(["manager", "--kubeconfig", str(tmp_path / "missing")]) == 1
    assert "missing" in capsys.readouterr().err


async def test_an_edit_changes_the_log_of_a_running_manager(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(TextFormatter())
    monkeypatch.setattr(root, "handlers", [*root.handlers, handler])
    monkeypatch.setattr(root, "level", logging.INFO)
    file = written(tmp_path, HEAD)
    read = load_configuration(file)
    follower = ConfigurationFollower(file, LogFlags(level=None, format="json", inside=False), read, every=0.001)
    task = asyncio.create_task(follower.run())
    replace_file(file, HEAD + "logging: {level: loud}\n")
    await eventually(lambda: "cannot be used; the one before stays" in caplog.text)
    replace_file(file, HEAD + "logging: {level: error, format: text}\nmetrics: {bindAddress: ':1'}\n")
    await eventually(lambda: root.level == logging.ERROR)
    assert isinstance(handler.formatter, JSONFormatter), "the flag takes precedence"
    assert "what is not in its section logging needs a restart" in caplog.text
    task.cancel()
    await asyncio.wait([task])


def replace_file(file: Path, text: str) -> None:
    """As a kubelet brings a change."""
    new = file.with_name("new")
    new.write_text(text)
    new.replace(file)
