# SPDX-License-Identifier: Apache-2.0
"""Variables, commands and images of containers, as tables."""

import base64
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cases import cases
from tests.unit.local.node.pods import Document, container, member, pod
from trainwright.controller.local.node.container import CrashBackoff
from trainwright.controller.local.node.document import (
    ClusterSources,
    ConfigError,
    CreateError,
    expand,
    field_value,
    resource_value,
    variables_of,
)
from trainwright.controller.local.node.images import DEFAULT, Environment, Images
from trainwright.controller.local.node.machine import node_resources
from trainwright.controller.local.node.plan import ContainerPlan, Folders, Workplace, inherited, make_plan
from trainwright.controller.local.node.volumes import Volumes
from trainwright.controller.runtime.errors import ConfigurationError

CASES = cases(__file__)


@pytest.mark.parametrize(("text", "wanted"), CASES["references"])
def test_references(text: str, wanted: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == wanted


class Objects(ClusterSources):
    """ConfigMaps and Secrets of the namespace, without a cluster."""

    def __init__(self) -> None:
        self.config_maps: dict[str, Document] = {}
        self.secrets: dict[str, Document] = {}
        self.job_sets: dict[str, Document] = {}

    async def config_map(self, namespace: str, name: str) -> Document | None:
        assert namespace == "ns"
        return self.config_maps.get(name)

    async def secret(self, namespace: str, name: str) -> Document | None:
        assert namespace == "ns"
        return self.secrets.get(name)

    async def job_set(self, pod: Document) -> Document | None:
        return self.job_sets.get(pod["metadata"].get("labels", {}).get("jobset.sigs.k8s.io/jobset-name", ""))

    def allocatable(self) -> dict[str, str]:
        return {"cpu": "4", "memory": "8Gi"}


@pytest.fixture
def objects() -> Objects:
    found = Objects()
    found.config_maps["c"] = {"data": {"a": "1", "b": "2", "no=name": "x"}}
    found.secrets["s"] = {"data": {"k": base64.b64encode(b"\xff!").decode(), "a": base64.b64encode(b"s").decode()}}
    return found


@pytest.mark.parametrize(("parts", "wanted"), CASES["variables"])
async def test_variables(objects: Objects, parts: Document, wanted: dict[str, str]) -> None:
    assert await variables_of(pod(), container(**parts), objects, service={"K": "service"}) == wanted


@pytest.mark.parametrize(("parts", "message"), CASES["missing_sources"])
async def test_missing_sources(objects: Objects, parts: Document, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        await variables_of(pod(), container(**parts), objects, service={})
    assert str(raised.value) == message


@pytest.mark.parametrize(("path", "wanted"), CASES["fields"])
def test_fields(path: str, wanted: str) -> None:
    assert field_value(pod(labels={"quote": '"', "app": "train"}, nodeName="laptop"), path) == wanted


@pytest.mark.parametrize(("resource", "divisor", "wanted"), CASES["resources_of_a_container"])
def test_resources_of_a_container(resource: str, divisor: str | None, wanted: str) -> None:
    one = container(resources={"limits": {"cpu": "1500m", "memory": "512Mi"}})
    found = resource_value(pod(one), {"resource": resource, "divisor": divisor}, one, {"cpu": "4"})
    assert found == wanted


def test_resources_of_an_unknown_container() -> None:
    with pytest.raises(ConfigError, match="container x not found"):
        resource_value(pod(), {"resource": "limits.cpu", "containerName": "x"}, None, {})


# ---------------------------------------------------------------------- images


IMAGES = """
images:
  - {image: "pytorch/*", environment: VENV, command: [python, -m, train], env: {A: 1}, workingDir: /no/such}
  - {image: "*/mpi*", refuse: MPI needs sshd}
"""


@pytest.fixture
def images(tmp_path: Path) -> Images:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    file = tmp_path / "images.yaml"
    file.write_text(IMAGES.replace("VENV", str(tmp_path / "venv")))
    return Images(file)


def test_the_first_match_wins_and_registries_may_be_left_out(images: Images, tmp_path: Path) -> None:
    for image in ("pytorch/pytorch:2", "docker.io/pytorch/pytorch:2"):
        found = images.environment_of(image)
        assert found.folders == (str(tmp_path / "venv" / "bin"),)
        assert found.command == ("python", "-m", "train")
        assert dict(found.variables) == {"A": "1"}
        assert found.image_id == f"local://{tmp_path}/venv"
    assert images.environment_of("x/mpi:1").refusal == "MPI needs sshd"
    assert images.environment_of("python:3") is DEFAULT
    assert Images(tmp_path / "absent").environment_of("x") is DEFAULT


@pytest.mark.parametrize(("text", "message"), CASES["mistakes_in_the_file_are_named"])
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "images.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        Images(file)


def written(file: Path, text: str) -> None:
    """Write the file, with a time of its own even where the clock of the file system is coarse."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(text)
    os.utime(file, ns=(before + 10**9, before + 10**9))


def test_changes_of_the_file_count_at_once_and_a_mistake_until_it_is_mended(tmp_path: Path) -> None:
    file, refused = tmp_path / "images.yaml", Environment(name="absent", folders=(), refusal="no")
    images = Images(file, defaults=[("a*", refused)])
    assert images.environment_of("a:1") is refused
    written(file, 'images: [{image: "a:*", command: [run]}]')
    assert images.environment_of("a:1").command == ("run",)
    assert images.environment_of("ab:1") is refused
    written(file, "images: [{image: a, colour: red}]")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"images\[0\]: unknown colour"):
            images.environment_of("a")
    written(file, 'images: [{image: "a:*", command: [go]}]')
    assert images.environment_of("a:1").command == ("go",)
    file.unlink()
    assert images.environment_of("a:1") is refused


# ---------------------------------------------------------------------- plans


async def plan(
    one: Document, objects: Objects, tmp_path: Path, images: Images, *, rewrite: bool = True
) -> ContainerPlan:
    folders = Folders(tmp_path, tmp_path / "logs", tmp_path / "tmp")
    workplace = Workplace(
        images=images,
        sources=objects,
        inherited={"PATH": "/usr/bin", "HOME": "/home/me", "A": "inherited"},
        service={"KUBERNETES_SERVICE_HOST": "127.0.0.1"},
        rewrite=rewrite,
        pods=lambda: [one],
        cluster=tmp_path / "cluster",
    )
    volumes = Volumes(tmp_path / "volumes", objects)
    await volumes.prepare(one)
    main = one["spec"]["containers"][0]
    return await make_plan(one, main, volumes, folders, workplace, devices={"CUDA_VISIBLE_DEVICES": ""}, moved={})


async def test_layers_of_the_environment(objects: Objects, images: Images, tmp_path: Path) -> None:
    main = {
        "name": "main",
        "image": "pytorch/x",
        "args": ["$(B)", "/dev/termination-log"],
        "env": [{"name": "B", "value": "2"}],
    }
    found = await plan(pod(main), objects, tmp_path, images)
    assert found.command == ["python", "-m", "train", "2", str(tmp_path / "termination-log")]
    assert found.environment["A"] == "1"
    assert found.environment["PATH"] == f"{tmp_path}/venv/bin{os.pathsep}/usr/bin"
    assert found.environment["CUDA_VISIBLE_DEVICES"] == ""
    assert found.environment["GLOO_SOCKET_IFNAME"] == "lo"
    assert found.environment["TERMINATION_LOG"] == str(tmp_path / "termination-log")
    assert found.folder == str(tmp_path / "work")


def said(command: list[str], environment: dict[str, str] | None = None) -> str:
    # A folder of its own: Python imports from the one that it starts in.
    with TemporaryDirectory() as folder:
        return subprocess.check_output(command, text=True, env=environment, cwd=folder)


@pytest.mark.parametrize(
    ("has", "named"),
    [
        *((has, "interpreter") for has in ("python", "python3", "python3.99")),
        *((has, "folder") for has in ("python", "python3")),
    ],
)
async def test_python_is_the_interpreter_that_the_entry_names(
    objects: Objects, tmp_path: Path, has: str, named: str
) -> None:
    """Also where it has another name, as Debian's, or another Python comes first on PATH."""
    interpreter = tmp_path / "own" / "bin" / has
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text('#!/bin/sh\necho mine "$@"\n')
    interpreter.chmod(0o700)
    where = interpreter if named == "interpreter" else interpreter.parent.parent
    file = tmp_path / "images.yaml"
    file.write_text(f'images: [{{image: "*", environment: "{where}"}}]')
    found = await plan(pod(container()), objects, tmp_path, Images(file))
    for name in ("python", "python3"):
        program = shutil.which(name, path=found.environment["PATH"])
        assert program is not None
        assert said([program, "a  b"]) == "mine a  b\n"


async def test_what_the_document_sets_wins(objects: Objects, images: Images, tmp_path: Path) -> None:
    env = [{"name": name, "value": "own"} for name in ("PATH", "HOME", "A", "TMPDIR", "GLOO_SOCKET_IFNAME")]
    found = await plan(pod(container(env=env)), objects, tmp_path, images)
    assert {found.environment[entry["name"]] for entry in env} == {"own"}


async def test_the_folder_of_the_annotation_goes_first(objects: Objects, images: Images, tmp_path: Path) -> None:
    here = tmp_path / "project"
    one = pod({"name": "main", "image": "*", "command": ["true"], "workingDir": "/"})
    one["metadata"]["annotations"] = {"workdir.trainwright.dev/main": str(here), "workdir.trainwright.dev/other": "/"}
    with pytest.raises(CreateError, match=r"working folder .*project does not exist: make it, or name another one"):
        await plan(one, objects, tmp_path, images)
    here.mkdir()
    for rewrite in (True, False):
        assert (await plan(one, objects, tmp_path, images, rewrite=rewrite)).folder == str(here)


async def test_namespaces_need_no_rewriting(objects: Objects, images: Images, tmp_path: Path) -> None:
    env = [{"name": "ADDRESS", "value": "mnist-node-0-0.mnist"}]
    mount = {"name": "data", "mountPath": "/data"}
    one = member(0, container(args=["/data/x"], env=env, volumeMounts=[mount]))
    one["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    rewritten = await plan(one, objects, tmp_path, images)
    assert rewritten.command[1] == f"{tmp_path}/volumes/data/x"
    assert rewritten.environment["ADDRESS"] == "127.0.0.1"
    found = await plan(one, objects, tmp_path, images, rewrite=False)
    assert found.command[1] == "/data/x"
    assert found.environment["ADDRESS"] == "mnist-node-0-0.mnist"
    assert "GLOO_SOCKET_IFNAME" not in found.environment
    assert [mount.path for mount in found.mounts] == ["/data", "/dev/termination-log"]


@pytest.mark.parametrize(("main", "message"), CASES["what_cannot_run"])
async def test_what_cannot_run(objects: Objects, images: Images, tmp_path: Path, main: Document, message: str) -> None:
    with pytest.raises(CreateError, match=message):
        await plan(pod(main), objects, tmp_path, images)


async def test_a_refused_image_says_where_its_volumes_lie(objects: Objects, images: Images, tmp_path: Path) -> None:
    main = {"name": "main", "image": "x/mpi:1", "volumeMounts": [{"name": "v", "mountPath": "/data"}]}
    with pytest.raises(CreateError) as raised:
        await plan(pod(main, volumes=[{"name": "v", "emptyDir": {}}]), objects, tmp_path, images)
    assert str(raised.value) == (
        f"image x/mpi:1 cannot run here: MPI needs sshd (its volumes: /data is {tmp_path}/volumes/v)"
    )


async def test_mpirun_on_one_machine_can_run(objects: Objects, images: Images, tmp_path: Path) -> None:
    assert (await plan(pod(container(command=["mpirun", "-np", "2"])), objects, tmp_path, images)).command[
        0
    ] == "mpirun"


def test_inherited_variables() -> None:
    environ = {"PATH": "p", "LC_ALL": "C", "AWS_SECRET": "no", "WANDB_KEY": "yes", "HF_HOME": "h"}
    assert inherited(environ, ["WANDB_*"]) == {"PATH": "p", "LC_ALL": "C", "WANDB_KEY": "yes", "HF_HOME": "h"}


@pytest.mark.parametrize(("given", "exceptions"), CASES["a_proxy_is_not_asked_for_the_servers_of_the_cluster"])
def test_a_proxy_is_not_asked_for_the_servers_of_the_cluster(given: dict[str, str], exceptions: dict[str, str]) -> None:
    assert inherited(given, []) == {**given, **exceptions}


# ---------------------------------------------------------------------- the node


def test_a_tenth_stays_with_the_user() -> None:
    capacity, allocatable = node_resources({"cpu": "8", "memory": "1000Ki", "pods": "110"}, {"nvidia.com/gpu": "2"}, {})
    assert capacity == {"cpu": "8", "memory": "1000Ki", "pods": "110", "nvidia.com/gpu": "2"}
    assert allocatable == {"cpu": "7200m", "memory": "900Ki", "pods": "110", "nvidia.com/gpu": "2"}


def test_named_amounts_are_given_as_they_are() -> None:
    capacity, allocatable = node_resources({"cpu": "8", "memory": "1Gi"}, {}, {"cpu": "16", "x.com/fpga": "1"})
    assert capacity == {"cpu": "16", "memory": "1Gi", "x.com/fpga": "1"}
    assert allocatable["cpu"] == "16"
    with pytest.raises(ValueError, match="is not a quantity"):
        node_resources({}, {}, {"cpu": "many"})


def test_delays_between_restarts() -> None:
    backoff, now, delays = CrashBackoff(), 0.0, []
    for _ in range(8):
        delays.append(backoff.delay(now))
        now += delays[-1]
        backoff.restarted(now)
        now += 1.0
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]
    assert backoff.delay(now + 601) == 0


def asking(index: int = 0, **annotations: str) -> Document:
    """A pod of the JobSet `mnist`, which asks the local node for something."""
    one = member(index)
    one["metadata"]["annotations"] = {f"{key}.trainwright.dev/main": value for key, value in annotations.items()}
    return one


def job_set(job: str = "train-x7k2p", uid: str = "12345678-abcd") -> Document:
    """The JobSet of a TrainJob."""
    owner = {"kind": "TrainJob", "name": job, "uid": uid, "controller": True}
    return {"metadata": {"name": "mnist", "namespace": "ns", "uid": "of-the-set", "ownerReferences": [owner]}}


async def test_all_ranks_of_a_job_have_one_output(objects: Objects, tmp_path: Path) -> None:
    objects.job_sets["mnist"] = job_set()
    runs = tmp_path / "runs"
    found = {
        (await plan(asking(index, runs=str(runs)), objects, tmp_path, Images())).environment["TRAINWRIGHT_OUTPUT_DIR"]
        for index in (0, 1, 0)
    }
    assert found == {str(runs / "train-x7k2p-12345678")}
    assert (runs / "latest").resolve() == runs / "train-x7k2p-12345678"
    # A later job, and an attempt of the first one after that.
    objects.job_sets["mnist"] = job_set("train-zzzzz", "87654321-abcd")
    await plan(asking(runs=str(runs)), objects, tmp_path, Images())
    objects.job_sets["mnist"] = job_set()
    await plan(asking(runs=str(runs)), objects, tmp_path, Images())
    assert (runs / "latest").resolve() == runs / "train-zzzzz-87654321"


async def test_a_pod_that_asks_for_a_folder_of_its_own_gets_one_that_is_kept(objects: Objects, tmp_path: Path) -> None:
    objects.job_sets["mnist"] = job_set()
    output = tmp_path / "out"
    found = [
        (await plan(asking(index, output=str(output), workdir="pod"), objects, tmp_path, Images(), rewrite=rewrite))
        for index in (0, 1)
        for rewrite in (True, False)
    ]
    assert {one.environment["TRAINWRIGHT_OUTPUT_DIR"] for one in found} == {str(output)}
    assert {one.folder for one in found} == {str(output / "pods" / f"mnist-node-0-{index}-abcde") for index in (0, 1)}
    assert sorted(one.name for one in (output / "pods").iterdir()) == ["mnist-node-0-0-abcde", "mnist-node-0-1-abcde"]
    # Without an output there is nothing that it could be kept with.
    assert (await plan(asking(workdir="pod"), objects, tmp_path, Images())).folder == str(tmp_path / "work")


async def test_an_output_with_files_of_another_job_is_left_alone(objects: Objects, tmp_path: Path) -> None:
    output = tmp_path / "out"
    objects.job_sets["mnist"] = job_set()
    await plan(asking(output=str(output)), objects, tmp_path, Images())
    objects.job_sets["mnist"] = job_set("other", "2")
    # Nothing was written yet.
    await plan(asking(output=str(output)), objects, tmp_path, Images())
    (output / "model").touch()
    (output / "more").touch()
    objects.job_sets["mnist"] = job_set()
    with pytest.raises(CreateError, match="out is the output of TrainJob other and holds model and 1 more"):
        await plan(asking(output=str(output)), objects, tmp_path, Images())
    # A later job of the same name goes on in it.
    objects.job_sets["mnist"] = job_set("other", "3")
    await plan(asking(output=str(output)), objects, tmp_path, Images())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").touch()
    with pytest.raises(CreateError, match="mine is not the output of a job and holds thesis"):
        await plan(asking(output=str(tmp_path / "mine")), objects, tmp_path, Images())
    with pytest.raises(CreateError, match=r"thesis/x cannot be made: Not a directory"):
        await plan(asking(output=str(tmp_path / "mine" / "thesis" / "x")), objects, tmp_path, Images())
    assert (output / "model").exists()


async def test_the_python_that_a_pod_asks_for_goes_before_that_of_its_image(
    objects: Objects, images: Images, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    (other / "bin" / "python").write_text("#!/bin/sh\necho other\n")
    (other / "bin" / "python").chmod(0o700)
    one = pod({"name": "main", "image": "pytorch/x"})
    one["metadata"]["annotations"] = {"python.trainwright.dev/main": str(other)}
    found = await plan(one, objects, tmp_path, images)
    assert said([str(shutil.which("python", path=found.environment["PATH"]))]) == "other\n"
    # What else the entry of the image says stays.
    assert found.environment["A"] == "1"
    one["metadata"]["annotations"] = {"python.trainwright.dev/main": str(tmp_path / "absent")}
    with pytest.raises(CreateError, match=r"the Python that the job names: .*absent is neither an interpreter nor"):
        await plan(one, objects, tmp_path, images)


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An empty virtual environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    return tmp_path / "venv"


async def test_another_environment_imports_the_writer_and_nothing_else_of_ours(
    objects: Objects, tmp_path: Path, venv: Path
) -> None:
    one = asking(python=str(venv))
    one["spec"]["containers"][0]["env"] = [{"name": "PYTHONPATH", "value": str(tmp_path)}]
    found = await plan(one, objects, tmp_path, Images())
    again = await plan(one, objects, tmp_path, Images())
    assert found.environment["PYTHONPATH"] == again.environment["PYTHONPATH"]
    assert found.environment["PYTHONPATH"].startswith(f"{tmp_path}{os.pathsep}")
    assert found.environment["VIRTUAL_ENV"] == str(venv)
    program = (
        "import trainwright.progress as one; print(one.Reporter.__name__)\n"
        "for name in ('msgspec', 'trainwright.api', 'aiohttp'):\n"
        "    try: __import__(name); print('has', name)\n"
        "    except ImportError: pass\n"
    )
    run = [str(venv / "bin" / "python"), "-c", program]
    assert said(run, found.environment) == "Reporter\n"
    # An environment with a Trainwright of its own keeps the rest of it.
    site = next((venv / "lib").glob("*/site-packages")) / "trainwright"
    (site / "api").mkdir(parents=True)
    for file in (site / "__init__.py", site / "api" / "__init__.py"):
        file.touch()
    assert said(run, found.environment) == "Reporter\nhas trainwright.api\n"
    # Ours needs none of it.
    assert "PYTHONPATH" not in (await plan(pod(container()), objects, tmp_path, Images())).environment
