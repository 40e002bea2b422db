# SPDX-License-Identifier: Apache-2.0
"""`trainwright render` and `trainwright plugins`, as somebody at a terminal meets them."""

import io
import json
from pathlib import Path
from textwrap import indent

import pytest
import yaml

from tests.cases import cases
from trainwright.controller.cli.main import main

RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: plain}
spec:
  mlPolicy: {numNodes: 1}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: base}]}}}
"""
JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: tiny}
spec:
  runtimeRef: {name: plain}
  trainer: {numNodes: 3}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runtimes").mkdir()
    (tmp_path / "runtimes" / "plain.yaml").write_text(RUNTIME)
    (tmp_path / "runtimes" / "README.md").write_text("no YAML: [")
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


def render(*arguments: object) -> int:
    return main(["render", *map(str, arguments)])


def test_the_objects_are_printed_as_yaml(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert render("-f", folder / "job.yaml", "--runtime", folder / "runtimes", "-n", "team") == 0

    (jobset,) = yaml.safe_load_all(capsys.readouterr().out)
    assert (jobset["kind"], jobset["metadata"]["namespace"]) == ("JobSet", "team")
    assert jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == 3


def test_one_folder_holds_everything_and_json_is_one_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert render("-f", folder, "-o", "json", "--explain") == 0

    output = json.loads(capsys.readouterr().out)
    assert [item["kind"] for item in output["items"]] == ["JobSet"]
    (count,) = [s for s in output["explanation"][0]["settings"] if s["path"].endswith("parallelism")]
    assert (count["plugin"], count["why"], count["value"]) == ("PlainML", "spec.trainer.numNodes", 3)


def test_an_explanation_leaves_the_yaml_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    render("-f", folder)
    plain = capsys.readouterr().out
    assert render("-f", folder, "--explain") == 0

    explained = capsys.readouterr().out
    assert list(yaml.safe_load_all(explained)) == list(yaml.safe_load_all(plain))
    assert "parallelism = 3  # PlainML, enforce_ml_policy: spec.trainer.numNodes" in explained


def test_the_difference_is_to_the_template_of_the_runtime(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert render("-f", folder, "-o", "diff") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "--- template of ClusterTrainingRuntime plain"
    assert "+        parallelism: 3" in lines
    assert not [line for line in lines[2:] if line.startswith("-")]


def test_standard_input(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(JOB))

    assert render("-f", "-", "--runtime", folder / "runtimes") == 0
    assert "kind: JobSet" in capsys.readouterr().out


BAD = cases(__file__)["mistakes"]


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_all_named(folder: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    text, expected = BAD[case]
    (folder / "job.yaml").write_text(text)

    assert render("-f", folder / "job.yaml", "--runtime", folder / "runtimes") == 1

    output = capsys.readouterr()
    assert output.out == ""
    assert all(line.startswith("error: ") for line in output.err.splitlines())
    assert [text for text in expected if text not in output.err] == []


def test_a_list_is_what_is_in_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def listed(*texts: str) -> str:
        return "apiVersion: v1\nkind: List\nitems:\n" + "".join("-" + indent(text, "  ")[1:] for text in texts)

    (folder / "job.yaml").write_text(listed(JOB, JOB.replace("tiny", "other")))
    assert render("-f", folder) == 0
    assert capsys.readouterr().out.count("kind: JobSet") == 2

    (folder / "job.yaml").write_text(listed(JOB, JOB.replace("numNodes", "numNode")))
    assert render("-f", folder) == 1
    assert "job.yaml:15: TrainJob tiny: spec.trainer.numNode: unknown field" in capsys.readouterr().err


def test_a_runtime_that_admission_refuses_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "runtimes" / "plain.yaml").write_text(RUNTIME.replace("name: node, image", "name: main, image"))

    assert render("-f", folder) == 1
    field = "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers"
    assert f'error: ClusterTrainingRuntime plain: {field}: Invalid value: ["main"]: ' in capsys.readouterr().err


def test_a_deprecated_runtime_is_a_warning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = "labels: {trainer.kubeflow.org/support: deprecated}"
    (folder / "runtimes" / "plain.yaml").write_text(RUNTIME.replace("{name: plain}", f"{{name: plain, {labels}}}"))

    assert render("-f", folder) == 0
    output = capsys.readouterr()
    assert "warning: TrainJob tiny: " in output.err
    assert "deprecated" in output.err
    assert "kind: JobSet" in output.out


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert render("-f", tmp_path / "none.yaml") == 1
    assert "none.yaml: cannot be read: No such file or directory" in capsys.readouterr().err


def test_what_follows_from_a_file_that_is_not_there_is_not_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert render("-f", folder / "job.yaml", "--runtime", folder / "none") == 1
    assert capsys.readouterr().err == f"error: {folder / 'none'}: cannot be read: No such file or directory\n"


def test_a_name_is_made_as_an_api_server_would(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "job.yaml").write_text(JOB.replace("name: tiny", "generateName: tiny-"))
    assert render("-f", folder) == 0
    (jobset,) = yaml.safe_load_all(capsys.readouterr().out)
    assert jobset["metadata"]["name"] == "tiny-xxxxx"


def test_mistakes_come_in_the_order_of_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "job.yaml").write_text(BAD["five mistakes"][0])
    assert render("-f", folder / "job.yaml") == 1
    lines = [int(line.split(":")[2]) for line in capsys.readouterr().err.splitlines()]
    assert lines == [3, 6, 6, 6, 7]


def test_a_runtime_may_be_named_twice_but_not_differently(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert render("-f", folder, "--runtime", folder / "runtimes") == 0
    (folder / "other.yaml").write_text(RUNTIME.replace("base", "other"))
    capsys.readouterr()
    assert render("-f", folder) == 1
    assert (
        "error: ClusterTrainingRuntime plain: the files have two different runtimes of this name"
        in capsys.readouterr().err
    )


def test_without_a_file_the_use_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        render()
    assert stopped.value.code == 2
    assert "-f" in capsys.readouterr().err


CONFIGURATION = """\
apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
plugins: {disabled: [PlainML]}
"""


def test_the_configuration_of_the_manager_decides_which_plugins_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "manager").write_text(CONFIGURATION)

    assert main(["plugins", "-o", "json", "--config", str(folder / "manager")]) == 0
    assert "PlainML" not in {row["name"] for row in json.loads(capsys.readouterr().out)}
    assert render("-f", folder, "--config", folder / "manager") == 0
    (jobset,) = yaml.safe_load_all(capsys.readouterr().out)
    assert jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == 1

    (folder / "manager").write_text(CONFIGURATION.replace("PlainML", "Plain"))
    for command in (["plugins"], ["render", "-f", str(folder)]):
        assert main([*command, "--config", str(folder / "manager")]) == 1
        assert "error: plugin Plain: disabled in the Configuration, but not installed" in capsys.readouterr().err


def test_a_feature_gate_loads_its_plugin_and_the_certificates_are_a_placeholder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gated = {"featureGates": {"TrainJobStatus": True}, "statusServer": {"port": 1234}}
    (folder / "manager").write_text(json.dumps(gated))

    assert main(["plugins", "-o", "json", "--config", str(folder / "manager")]) == 0
    assert "TrainJobStatus" in {row["name"] for row in json.loads(capsys.readouterr().out)}
    assert render("-f", folder, "-n", "team", "--config", folder / "manager") == 0
    config_map, jobset = yaml.safe_load_all(capsys.readouterr().out)
    assert config_map["data"] == {"ca.crt": "(the CA certificates of the manager)\n"}
    (node,) = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    address = "https://kubeflow-trainer-controller-manager.kubeflow-system.svc:1234/"
    assert node["env"][0]["value"].startswith(address)

    gated["plugins"] = {"enabled": ["TrainJobStatus"]}
    del gated["featureGates"]
    (folder / "manager").write_text(json.dumps(gated))
    assert render("-f", folder, "--config", folder / "manager") == 1
    assert "set featureGates.TrainJobStatus to true" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_plugins_are_listed_in_their_order(capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert main(["plugins", "-o", form]) == 0

    output = capsys.readouterr().out
    if form == "table":
        names = [line.split()[0] for line in output.splitlines()[1:]]
        assert "jobsets.jobset.x-k8s.io:create/delete/list/patch/watch" in output
    else:
        rows = yaml.safe_load(output)
        names = [row["name"] for row in rows]
        assert {"name", "version", "distribution", "phases", "before", "after", "rules"} == rows[0].keys()
    assert {"JobSet", "PlainML"} <= set(names)
