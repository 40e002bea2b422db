# SPDX-License-Identifier: Apache-2.0
"""Images without a registry, and the store from which a node takes them.

podman builds them in a workshop: those of the Dockerfile beside this file, and ours from that of this project.
containerd takes the former into a store in the cache. Each node starts with a copy of it, made of hard links.
"""

import contextlib
import hashlib
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hack.node import debian
from hack.node.spaces import ROOT, Spaces, cache, output_of, step, workshop

_DOCKERFILE = Path(__file__).parent / "Dockerfile"
PAUSE = "localhost/pause:1"
PYTHON = "docker.io/library/python:3.13-slim"
TRAINING = "localhost/training:1"
NAMES: Mapping[str, Sequence[str]] = {
    "pause": (PAUSE,),
    "python": (PYTHON,),
    "training": (
        TRAINING,
        "docker.io/pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime",
        "ghcr.io/kubeflow/trainer/xgboost-runtime:v2.3.0",
        "nvcr.io/nvidia/jax:25.10-py3",
    ),
    "mpi": ("ghcr.io/kubeflow/trainer/deepspeed-runtime:v2.3.0", "ghcr.io/kubeflow/trainer/mlx-runtime:v2.3.0"),
}
"""The names of each stage of the Dockerfile: the first is its own, or those that the shipped runtimes use."""
MANAGER = "localhost/trainwright:1"
OURS: Mapping[str, str] = {
    "manager": MANAGER,
    "dataset-initializer": "ghcr.io/kubeflow/trainer/dataset-initializer:v2.3.0",
    "model-initializer": "ghcr.io/kubeflow/trainer/model-initializer:v2.3.0",
}
"""Our images, by the target of `make build-image`."""


def _sent() -> list[Path]:
    """What the Dockerfile copies."""
    pins = [ROOT / "hack" / f"requirements-{name}.txt" for name in ("trainings", "run", "clients")]
    return [*pins, ROOT / "trainwright" / "progress.py"]


def store_folder() -> Path:
    """containerd's folder with the images of the Dockerfile beside this file; may not exist yet."""
    seen = hashlib.sha256()
    for file in (_DOCKERFILE, *_sent()):
        seen.update(file.read_bytes())
    return cache() / f"store-{seen.hexdigest()[:8]}"


def store() -> Path:
    """That folder; made if it is missing."""
    folder = store_folder()
    if folder.is_dir():
        return folder
    # An earlier version of the images is of no use any more.
    for old in cache().glob("store-*"):
        shutil.rmtree(old)
    made = folder.with_name(f"{folder.name}.new")
    with builder() as podman:
        tars = [_built(podman, stage, names) for stage, names in NAMES.items()]
        with step("taking the images into containerd's store"):
            made.mkdir()
            _import(made, tars)
        # Layers between, whose images are in the store now.
        podman("image", "prune", "--force")
    made.rename(folder)
    return folder


class Podman:
    def __init__(self, spaces: Spaces) -> None:
        self._spaces = spaces
        self.folder = spaces.folder
        """For what is needed while the workshop exists; it is deleted with it."""
        self._variables = {
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            # RUN steps need no container: what they may do, they may do in the workshop.
            "BUILDAH_ISOLATION": "chroot",
            "PODMAN_IGNORE_CGROUPSV1_WARNING": "1",
        }

    def __call__(self, *arguments: str, place: Path | None = None) -> str:
        return self._spaces.run("podman", *arguments, place=place, variables=self._variables)

    def program(self, folder: Path) -> Path:
        """A `podman` for programs outside of the workshop."""
        words = " ".join(f"'{word}'" for word in self._spaces.command("podman"))
        told = " ".join(f"NODE_{name}='{value}'" for name, value in self._variables.items())
        file = folder / "podman"
        file.write_text(f'#!/bin/sh\nNODE_PWD="$PWD" {told} exec {words} "$@"\n')
        file.chmod(0o755)
        return file


@contextlib.contextmanager
def builder() -> Iterator[Podman]:
    """A workshop with podman, its images in the cache, and this project."""
    root = debian.node()
    storage = cache() / "podman"
    storage.mkdir(exist_ok=True)
    with workshop(root, binds=[cache(), ROOT]) as (spaces, _):
        (spaces.folder / "containers.conf").write_text(
            '[containers]\nnetns = "host"\n'
            f"default_ulimits = [{_limit('nofile')}, {_limit('nproc')}]\n"
            '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\nruntime = "runc"\n'
        )
        (spaces.folder / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{storage}"\nrunroot = "/run/containers"\n'
        )
        podman = Podman(spaces)
        _bases(podman)
        yield podman


def _limit(name: str) -> str:
    # More than the hard limit is refused where CAP_SYS_RESOURCE is missing.
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
    return f'"{name}={hard}:{hard}"'


def _bases(podman: Podman) -> None:
    for suite in ("trixie", "bookworm"):
        name = f"localhost/debian:{suite}"
        if podman("images", "--quiet", name).strip():
            continue
        root = debian.base(suite)
        tar = podman.folder / "base.tar"
        subprocess.run(["tar", "--create", "--file", tar, "--directory", root, "."], check=True)
        podman("import", "--quiet", str(tar), name)
        tar.unlink()


def _built(podman: Podman, stage: str, names: Sequence[str]) -> Path:
    context = podman.folder / "context"
    context.mkdir(exist_ok=True)
    for file in _sent():
        shutil.copy(file, context)
    tar = podman.folder / f"{stage}.tar"
    with step(f"building the image {names[0]}"):
        tags = [f"--tag={name}" for name in names]
        source = [f"--target={stage}", f"--file={_DOCKERFILE}", str(context)]
        podman("build", "--quiet", *tags, *source, place=context)
        podman("save", "--quiet", "--format=docker-archive", f"--output={tar}", *names)
        if stage != "python":  # the base of ours
            podman("rmi", "--force", *names)
    return tar


def _import(folder: Path, tars: Sequence[Path]) -> None:
    """Take images into containerd's folder; only what is unpacked is kept."""
    with workshop(debian.node(), binds=[cache()]) as (spaces, components):
        configuration = spaces.folder / "containerd.toml"
        configuration.write_text(f'version = 2\nroot = "{folder}"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        command = spaces.command("containerd", f"--config={configuration}")
        components.launch("containerd", command, lambda: answers(spaces))
        components.wait("containerd")
        for tar in tars:
            load(spaces, tar)
            tar.unlink()
        # Layers are in snapshots: their archives are not needed again.
        spaces.run("ctr", "--namespace=k8s.io", "content", "prune", "references")


def answers(spaces: Spaces) -> bool:
    return subprocess.run(spaces.command("ctr", "version"), capture_output=True, check=False).returncode == 0


def load(spaces: Spaces, tar: Path) -> None:
    """Take the images of an archive into the containerd that runs there, for kubelets."""
    spaces.run("ctr", "--namespace=k8s.io", "images", "import", "--digests=false", str(tar))


def copy_of_store(target: Path) -> None:
    """A copy for one node: files are hard links, but for databases, which are changed in place."""
    subprocess.run(["cp", "--archive", "--link", f"{store()}/.", target], check=True)
    for database in target.glob("*/*.db"):
        copy = database.with_name(f"{database.name}.new")
        shutil.copy2(database, copy)
        copy.replace(database)


def ours(target: str = "manager") -> Path:
    """An archive with our image, built from this checkout by `make build-image`."""
    tar = cache() / f"ours-{target}-{_checkout()}.tar"
    if tar.is_file():
        return tar
    build_ours(target, OURS[target], tar)
    for old in set(cache().glob(f"ours-{target}-*.tar")) - {tar}:
        old.unlink()
    return tar


def build_ours(target: str, image: str, tar: Path) -> str:
    """Run `make build-image`, with the podman of the workshop; returns what it printed."""
    with builder() as podman, step(f"make build-image: {target}"):
        if not podman("images", "--quiet", PYTHON).strip():
            _built(podman, "python", NAMES["python"]).unlink()
        bin_folder = podman.folder / "bin"
        bin_folder.mkdir()
        podman.program(bin_folder)
        # A docker that runs on this machine would be taken first, and its images lie elsewhere.
        (bin_folder / "docker").symlink_to("/bin/false")
        told = output_of(
            ["make", "--no-print-directory", "build-image", f"IMG={image}", f"TARGET={target}"],
            "make build-image",
            cwd=ROOT,
            env={**os.environ, "PATH": f"{bin_folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"},
        )
        unfinished = tar.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        podman("save", "--quiet", "--format=docker-archive", f"--output={unfinished}", image)
        unfinished.rename(tar)
        podman("rmi", "--force", image)
    return told


def _checkout() -> str:
    """A word for what the Dockerfile copies."""
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    seen = hashlib.sha256((ROOT / "Dockerfile").read_bytes())
    for name in sent:
        path = ROOT / name
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                seen.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return seen.hexdigest()[:12]
