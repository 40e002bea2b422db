# SPDX-License-Identifier: Apache-2.0
"""The Dockerfile without a container engine: its steps are done in a folder, and what they make is run as in a pod."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Trainer
from tests.installation import CONFIG, forbidden, install, kustomized
from tests.repository import ROOT
from tests.wheels import build
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import equals, eventually_sync

# Packages may have to be downloaded.
pytestmark = pytest.mark.timeout(900)

PLUGIN = ROOT / "tests" / "e2e" / "plugin_distribution"
HOME = "/opt/trainwright"
UID = "65532"

CONTAINER = """
set -e
root=$1 python=$2 image=$3 account=$4 configuration=$5
shift 5
mount -t tmpfs -o mode=755 none "$root"
mkdir -p "$root/tmp" "$root/var/run/secrets/kubernetes.io/serviceaccount"
mount -t tmpfs -o mode=1777,size=16m none "$root/tmp"
cp "$account"/* "$root/var/run/secrets/kubernetes.io/serviceaccount"
mkdir "$root/configuration"
cp "$configuration" "$root/configuration/controller_manager_config.yaml"
for path in /usr /bin /sbin /lib /lib64 /etc /dev /proc "$python" "$image"; do
    if [ -L "$path" ]; then
        cp -P "$path" "$root$path"
    elif [ -d "$path" ]; then
        mkdir -p "$root$path"
        mount --rbind "$path" "$root$path"
        mount -o remount,bind,ro "$root$path"
    fi
done
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid=65532 --regid=65532 --clear-groups --no-new-privs --bounding-set=-all "$@"
"""
"""Shell: a read-only root with the image and what a pod mounts, entered as the image's user. The system and Python of
this machine play the base image."""


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile, an instruction at a time."""
    text = re.sub(r"(?m)^#.*\n", "", (ROOT / "Dockerfile").read_text()).replace("\\\n", "")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage."""
    found: list[list[tuple[str, str]]] = []
    for word, rest in instructions():
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, rest))
    return found


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A distribution with a plugin."""
    source, target = tmp_path_factory.mktemp("plugin") / "source", tmp_path_factory.mktemp("wheel")
    shutil.copytree(PLUGIN, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    done = build(source, target)
    assert done.returncode == 0, done.stderr
    return target / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Path:
    """What the first stage makes of the sources, with a plugin more; its packages are downloaded."""
    folder = tmp_path_factory.mktemp("image")
    sources, home = folder / "src", folder / "opt"
    sources.mkdir()
    folder.chmod(0o755)  # pytest's own are for their owner only
    # pip's cache is the user's, and so are the index and proxies that he has set.
    variables = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PLUGINS": str(plugin)}
    for word, rest in stages()[0]:
        match word:
            case "ENV":
                variables |= dict(part.split("=", 1) for part in rest.split())
            case "WORKDIR":
                assert rest == "/src"
            case "COPY":
                *names, target = rest.split()
                for name in names:
                    copy(ROOT / name, sources / target if len(names) == 1 else sources / target / name)
            case "RUN":
                command = rest.replace(HOME, str(home))
                done = subprocess.run(
                    ["sh", "-c", command], cwd=sources, env=variables, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, f"{rest}\n{done.stdout}{done.stderr}"
            case _:
                assert word in {"FROM", "ARG"}, f"the test does not know {word}"
    shutil.rmtree(sources)
    return home


def copy(source: Path, target: Path) -> None:
    """As COPY does: links stay links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def run(home: Path, *arguments: str) -> str:
    command = [str(home / "bin" / "trainwright"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_last_stage_holds_the_first_ones_environment_only() -> None:
    last = stages()[-1]
    assert [rest for word, rest in last if word == "COPY"] == [f"--from=build {HOME} {HOME}"]
    assert [rest for word, rest in last if word == "USER"] == [f"{UID}:{UID}"]
    assert [rest for word, rest in last if word == "ENTRYPOINT"] == [f'["{HOME}/bin/trainwright"]']
    assert [word for word, _ in last if word in {"RUN", "ADD"}] == []
    # Of one base, or the environment would not fit.
    bases = {stage[0][1].split()[0] for stage in stages()} - {"initializer"}
    assert bases == {"python:${PYTHON}-slim"}


def test_all_that_is_copied_is_sent_to_the_engine() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {
        name
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for name in rest.split()[:-1]
    }
    assert {name.removesuffix("/pkg") for name in copied} == sent
    assert "*" in ignored


@pytest.mark.parametrize("kind", ["dataset", "model"])
def test_the_images_of_initializers_start_as_the_sdk_starts_them(tmp_path: Path, kind: str) -> None:
    """`bash -c "python -m pkg.initializers.…"` in the folder of the image, which has what is copied there."""
    steps = next(stage for stage in stages() if stage[0][1].endswith(" AS initializer"))
    assert ("WORKDIR", "/app") in steps
    (source, target) = next(rest for word, rest in steps if word == "COPY" and rest.endswith(" pkg")).split()
    copy(ROOT / source, tmp_path / "app" / target)
    (data := tmp_path / "data").mkdir()
    (data / "x.json").write_text("{}")
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "STORAGE_URI": f"file://{data}",
        "OUTPUT_PATH": str(tmp_path / "t"),
    }
    started = subprocess.run(
        ["bash", "-c", f"python -m pkg.initializers.{kind}"],
        cwd=tmp_path / "app",
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    assert (tmp_path / "t" / "x.json").read_text() == "{}"
    last = next(stage for stage in stages() if stage[0][1].endswith(f" AS {kind}-initializer"))
    assert ("ENTRYPOINT", f'["python", "-m", "pkg.initializers.{kind}"]') in last


@pytest.mark.parity
def test_the_image_holds_the_manager_its_dependencies_and_the_plugin(image: Path) -> None:
    assert run(image, "--version").startswith("trainwright ")
    listed = run(image, "plugins")
    assert "Ray" in listed
    assert "JobSet" in listed
    packages = next((image / "lib").glob("python*/site-packages"))
    names = {path.name.partition("-")[0] for path in packages.glob("*.dist-info")}
    assert {"aiohttp", "trainwright", "uvloop"} <= names
    # Of tools that build and test, nothing is left; and there are real files.
    assert not names & {"pip", "setuptools", "pytest", "ruff", "mypy"}
    assert [path for path in packages.rglob("*") if path.is_symlink()] == []
    assert (packages / "trainwright" / "controller" / "trainer" / "__pycache__").is_dir()


def _may_mount() -> bool:
    return os.geteuid() == 0 and not subprocess.run(["unshare", "--mount", "true"], check=False).returncode


@pytest.mark.parity
@pytest.mark.only_where(_may_mount(), "a root of its own and another user need root and the right to mount")
def test_the_manager_runs_as_in_a_pod(image: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()

    def command(account: Path, configuration: Path) -> list[str]:
        files = [root, sys.base_prefix, image.parent, account, configuration]
        inside = ["unshare", "--mount", "sh", "-c", CONTAINER, "container", *map(str, files)]
        return [*inside, str(image / "bin" / "trainwright")]

    with ControlPlane.complete(crds=[CONFIG / "crd"], audit=True) as control_plane:
        deployment = next(one for one in kustomized(control_plane, "manager") if one["kind"] == "Deployment")
        arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        install(control_plane).start("image", *arguments, command=command)
        status = Path(f"/proc/{control_plane.components['image'].program_pid}/status").read_text()
        assert re.search(rf"(?m)^Uid:\s+{UID}\s+{UID}\s", status)
        assert re.search(r"(?m)^CapEff:\s+0+$", status)
        assert re.search(r"(?m)^NoNewPrivs:\s+1$", status)
        trainer = Trainer(control_plane, control_plane.create_namespace())
        trainer.job("imaged", trainer.runtime("plain"))
        eventually_sync(lambda: trainer.conditions("imaged"), equals({"Complete": ("True", "AllJobsCompleted")}))
        assert forbidden(control_plane) == []


@pytest.mark.parity
@pytest.mark.only_where(_may_mount(), "a root of its own and another user need root and the right to mount")
def test_an_initializer_needs_no_home_and_nothing_but_its_volume(image: Path, tmp_path: Path) -> None:
    """Scenario 40: a read-only root, a user that the image does not know, and a volume that it may write."""
    for name in ("root", "account", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "account" / "token").write_text("")
    (tmp_path / "data" / "x.json").write_text("{}")
    (tmp_path / "configuration").write_text("")
    files = [tmp_path / "root", sys.base_prefix, image.parent, tmp_path / "account", tmp_path / "configuration"]
    copies = f'cp -r {tmp_path}/data "$root/tmp/" && chmod -R a+rX "$root/tmp/data"'
    script = CONTAINER.replace("mount -o remount,ro", f"{copies}\nmount -o remount,ro", 1).replace("65532", "4242")
    done = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-c", script, "container", *map(str, files)),
            *(str(image / "bin" / "trainwright"), "initialize", "model"),
        ],
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "STORAGE_URI": "file:///tmp/data",
            "OUTPUT_PATH": "/tmp/volume/model",
        },
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "/tmp/volume/model is complete" in done.stderr


def test_without_an_engine_it_says_so(tmp_path: Path) -> None:
    for name in ("sh", "dirname", "sed", "tail", "tr", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    command = [str(ROOT / "hack" / "build-image")]
    without = subprocess.run(
        [*command, "a:1"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (without.returncode, without.stdout) == (1, "")
    assert "no container engine; install and start docker or podman" in without.stderr
    nameless = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert nameless.returncode == 2
    assert "make build-image IMG=" in nameless.stderr


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the program that lists an image's contents says of this environment; it reads a gigabyte."""
    with (ROOT / "hack" / "image_contents.py").open() as program:
        done = subprocess.run(
            [sys.executable, "-I", "-", "--system"], stdin=program, capture_output=True, text=True, check=True
        )
    file = tmp_path_factory.mktemp("contents") / "contents.json"
    file.write_text(done.stdout)
    return file


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_the_engine_that_runs_builds(tmp_path: Path, contents: Path, engine: str) -> None:
    # The other one is installed and does not run.
    for name, code in ((engine, 0), ({"docker": "podman", "podman": "docker"}[engine], 1)):
        program = tmp_path / name
        # The Python of the image gets that program, and answers as the one of this environment.
        program.write_text(
            f"#!/bin/sh\ncase $1 in\ninfo) exit {code} ;;\nimage) echo 12345 ;;\n"
            'run) shift 7; [ "$*" = "example.com/a:1 -I - --system" ] && cmp - hack/image_contents.py && '
            f"cat {contents} ;;\n"
            f'*) printf "%s|" {name} "$@"; echo ;;\nesac\n'
        )
        program.chmod(0o755)
    done = subprocess.run(
        [str(ROOT / "hack" / "build-image"), "example.com/a:1", "one two==2"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        f"{engine}|build|--tag|example.com/a:1|--build-arg|PLUGINS=one two==2|--target|manager|--file|Dockerfile|.|",
        "example.com/a:1: 12345 bytes",
    ]
    assert any(line.startswith("| aiohttp | ") for line in lines)
    folder = ROOT / "dist" / "image"
    assert re.search(r'"purl": "pkg:pypi/aiohttp@', (folder / "sbom.cdx.json").read_text())
    assert re.search(r"(?m)^\| aiohttp \| \S+ \| Apache-2.0 AND MIT \|$", (folder / "LICENCES.md").read_text())
