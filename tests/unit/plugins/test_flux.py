# SPDX-License-Identifier: Apache-2.0
"""Flux: shape, scripts and certificate."""

import base64
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tests.unit.plugins.blueprints import (
    blueprint,
    container,
    errors,
    job_template,
    outcome,
    pods,
    resources,
    verdict,
)
from trainwright.plugins.contract import PLACEHOLDER
from trainwright.plugins.flux import z85
from trainwright.plugins.testing import Result


def scripts(result: Result) -> dict[str, str]:
    data: dict[str, str] = result.object("ConfigMap", "job-flux-entrypoint")["data"]
    return data


@pytest.mark.parametrize(
    ("trainer", "policy", "run_flags", "resource_flags", "hosts"),
    [
        pytest.param(
            {"numNodes": 2, "numProcPerNode": 3, "resourcesPerNode": {"limits": resources(gpu=2)}},
            {},
            "-N 2 -n 6 -g 2",
            "--cores=0-2 --gpu=0-1",
            "job-node-0-[0-1]",
            id="141",
        ),
        pytest.param({"numNodes": 1}, {}, "-N 1 -n 1", "--cores=0", "job-node-0-[0]", id="142"),
        pytest.param(None, {}, "-N 4 -n 4", "--cores=0", "job-node-0-[0-3]", id="138-no-trainer"),
        pytest.param({}, {"numProcPerNode": 2}, "-N 4 -n 8", "--cores=0-1", "job-node-0-[0-3]", id="138-no-count"),
    ],
)
def test_shape_of_the_instance(
    trainer: Any, policy: dict[str, Any], run_flags: str, resource_flags: str, hosts: str
) -> None:
    made = blueprint({"numNodes": 4, "flux": policy})
    found = scripts(outcome(made, **({} if trainer is None else {"trainer": trainer})))
    assert f'flags="{run_flags}"\n' in found["entrypoint.sh"]
    assert f" {resource_flags} > " in found["entrypoint.sh"]
    assert f'hosts="{hosts}"\n' in found["init.sh"]
    assert f'{{ host = "{hosts}" }}' in found["init.sh"]


def test_command_and_arguments_are_one_line() -> None:
    main = container(command=["  lmp  "], args=["-in", "a b.lmp"])
    made = blueprint("{flux: {}}", job_template("node", "trainer", main))
    result = outcome(made, trainer={"args": ["--x", "y "]})
    assert result.container()["command"] == ["/bin/bash", "/etc/flux-config/entrypoint.sh", "lmp   --x y"]
    assert result.container()["args"] == ["-in", "a b.lmp"]
    own = outcome(made, trainer={"command": ["python"], "args": ["t.py"]})
    assert own.container()["command"][2] == "python t.py"


def test_settings_come_from_variables_the_jobs_first() -> None:
    env = [{"name": "FLUX_VIEW_IMAGE", "value": "view:1"}, {"name": "FLUX_QUEUE_POLICY", "value": "easy"}]
    made = blueprint("{flux: {}}", job_template("node", "trainer", container(env=env)))
    result = outcome(made, trainer={"env": [{"name": "FLUX_QUEUE_POLICY", "value": "conservative"}]})
    assert result.container("node", "flux-installer")["image"] == "view:1"
    assert 'queue-policy = "conservative"' in scripts(result)["init.sh"]
    assert 'default_bind = "tcp://eth0:%p"' in scripts(result)["init.sh"]


def test_nodes_get_volumes_an_installer_and_mounts() -> None:
    made = blueprint("{flux: {}}", job_template("node", "trainer", initContainers=[{"name": "mine", "image": "m"}]))
    pod = outcome(made, trainer={"numNodes": 2}).pod()
    assert [volume["name"] for volume in pod["volumes"]] == [
        *("spack-install", "flux-install", "job-flux-entrypoint", "shared-memory", "flux-curve")
    ]
    assert pod["volumes"][2]["configMap"] == {"name": "job-flux-entrypoint", "defaultMode": 0o755}
    assert pod["volumes"][4]["secret"] == {"secretName": "job-flux-curve", "defaultMode": 0o400}
    installer = {
        "name": "flux-installer",
        "image": "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
        "command": ["/bin/bash", "/etc/flux-config/init.sh"],
        "volumeMounts": [
            {"name": "flux-install", "mountPath": "/mnt/flux"},
            {"name": "job-flux-entrypoint", "mountPath": "/etc/flux-config", "readOnly": True},
        ],
    }
    assert [{"name": "mine", "image": "m"}, installer] == pod["initContainers"]
    assert [(m["mountPath"], m.get("readOnly", False)) for m in pod["containers"][0]["volumeMounts"]] == [
        ("/mnt/flux", False),
        ("/opt/software", False),
        ("/etc/flux-config", True),
        ("/curve", True),
        ("/dev/shm", True),
    ]


def test_a_certificate_is_fresh_and_its_keys_match() -> None:
    """The original derives it from the uid; see docs/differences.md."""
    component = outcome(blueprint("{flux: {}}")).component("Secret")
    assert (component.document["type"], component.document["data"]) == ("Opaque", {"curve.cert": PLACEHOLDER})
    assert component.generate is not None
    texts = {base64.b64decode(component.generate(component.document)["data"]["curve.cert"]).decode() for _ in range(2)}
    assert len(texts) == 2
    for text in texts:
        lines = text.splitlines()
        assert [line[:3] for line in lines[:2]] == ["#  ", "#  "]
        assert lines[2:6] == ["", "metadata", '    name = "job"', "curve"]
        public, secret = (line.split('"')[1] for line in lines[6:])
        assert (lines[6].split(" =")[0], lines[7].split(" =")[0]) == ("    public-key", "    secret-key")
        assert (len(public), len(secret)) == (40, 40)
        key = X25519PrivateKey.from_private_bytes(unz85(secret))
        assert key.public_key().public_bytes_raw() == unz85(public)


ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def unz85(text: str) -> bytes:
    words = [text[start : start + 5] for start in range(0, len(text), 5)]
    return b"".join(sum(ALPHABET.index(c) * 85 ** (4 - i) for i, c in enumerate(w)).to_bytes(4, "big") for w in words)


def test_the_text_form_of_binary_data() -> None:
    assert z85(b"\0\0\0\0") == "00000"
    assert z85(b"") == ""
    # The example of ZeroMQ RFC 32.
    assert z85(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"
    with pytest.raises(ValueError, match="3 bytes have no Z85 form"):
        z85(b"abc")


@pytest.mark.parametrize(
    ("job", "name", "expected"),
    [
        ("node", "flux-installer", [("spec.trainer.initContainers", "FieldValueInvalid")]),
        ("node", "other", []),
        ("side", "flux-installer", []),
    ],
)
def test_the_installers_name_is_taken(job: str, name: str, expected: list[tuple[str, str]]) -> None:
    jobs = [job_template(), job_template("side", None)]
    (wanted,) = [each for each in jobs if each["name"] == job]
    wanted["template"]["spec"]["template"]["spec"]["initContainers"] = [{"name": name, "image": "i"}]
    assert errors(verdict(blueprint("{flux: {}}", *jobs))) == expected


# The first word of each line is the program, as the script calls it; FAILS is how often flux fails before it does not.
STUB = """\
#!/bin/bash
echo "$(basename "$0") $*" >> "$CALLS"
case "$(basename "$0")" in
  hostname) echo "$HOST" ;;
  flux)
    [ "$1" = R ] && exit 0
    left=$(cat "$FAILURES")
    [ "$left" -gt 0 ] && { echo $((left - 1)) > "$FAILURES"; exit 3; }
    exit 0 ;;
esac
"""


@pytest.mark.parametrize(
    ("host", "command", "failures", "code", "flux"),
    [
        pytest.param("job-node-0-0", "train --x", 0, 0, ["start flux run -N 2 -n 2 train --x"], id="lead"),
        pytest.param("job-node-0-0", "train", 1, 3, ["start flux run -N 2 -n 2 train"], id="146-lead-fails"),
        pytest.param("job-node-0-0", "", 0, 0, ["broker"], id="interactive"),
        pytest.param("job-node-0-0", "", 1, 3, ["broker"], id="interactive-fails"),
        pytest.param("job-node-0-1", "train", 2, 0, ["start", "start", "start"], id="follower-tries-again"),
    ],
)
def test_what_the_nodes_run(tmp_path: Path, host: str, command: str, failures: int, code: int, flux: list[str]) -> None:
    """The script itself, with its absolute paths moved into a folder and the programs of a pod replaced."""
    text = scripts(outcome(blueprint("{flux: {}}"), trainer={"numNodes": 2}))["entrypoint.sh"]
    text = re.sub(r"(?<![\w}/])(/mnt/flux|/opt/software|/curve|/tmp/fluxout)\b", rf"{tmp_path}\1", text)
    for place in ("curve", "opt/software", "tmp"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "mnt/flux/config/etc/flux/system").mkdir(parents=True)
    (tmp_path / "mnt/flux/config/etc/flux/system/hostlist").write_text("job-node-0-[0-1]\n")
    (tmp_path / "mnt/flux/view/lib/python3.10").mkdir(parents=True)
    (tmp_path / "mnt/flux/software").mkdir()
    (tmp_path / "mnt/flux/software/tool").write_text("x")
    (tmp_path / "curve/curve.cert").write_text("secret")
    (tmp_path / "entrypoint.sh").write_text(text)
    (tmp_path / "failures").write_text(str(failures))
    (tmp_path / "bin").mkdir()
    for program in ("flux", "hostname", "sleep", "chown"):
        (tmp_path / "bin" / program).write_text(STUB)
        (tmp_path / "bin" / program).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
        "HOST": host,
        "CALLS": str(tmp_path / "calls"),
        "FAILURES": str(tmp_path / "failures"),
    }
    done = subprocess.run(
        ["bash", str(tmp_path / "entrypoint.sh"), command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call for call in calls if call.startswith("flux R encode")] == [
        "flux R encode --hosts=job-node-0-[0-1] --cores=0"
    ]
    started = [call.split() for call in calls if call.startswith(("flux start", "flux broker"))]
    words = [
        [word for word in call[1:] if not word.startswith(("-o", "-S", "--config", str(tmp_path)))] for call in started
    ]
    assert [" ".join(call) for call in words] == flux
    certificate = tmp_path / "mnt/flux/config/etc/curve/curve.cert"
    assert (certificate.read_text(), certificate.stat().st_mode & 0o077) == ("secret", 0)


def test_only_flux_runtimes_and_plain_ml_counts() -> None:
    plain = outcome(blueprint("{}"), trainer={"command": ["a"]})
    assert plain.container()["command"] == ["a"]
    assert [component.resource.kind for component in plain.rendering.components] == ["JobSet"]
    assert pods(outcome(blueprint("{flux: {}}"), trainer={"numNodes": 2})) == {"node": 2}
