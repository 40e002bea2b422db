# SPDX-License-Identifier: Apache-2.0
"""The certificate and the script of Flux; tests/conformance/renderings has the rest."""

import base64
import re
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tests.cases import cases
from tests.unit.plugins.blueprints import (
    blueprint,
    outcome,
)
from trainwright.plugins.contract import PLACEHOLDER
from trainwright.plugins.flux import z85
from trainwright.plugins.testing import Result

CASES = cases(__file__)


def scripts(result: Result) -> dict[str, str]:
    data: dict[str, str] = result.object("ConfigMap", "job-flux-entrypoint")["data"]
    return data


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
    CASES["what_the_nodes_run"].values(),
    ids=CASES["what_the_nodes_run"],
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
