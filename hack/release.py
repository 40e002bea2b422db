# SPDX-License-Identifier: Apache-2.0
"""`make release`: what a release consists of, in dist/, made from the last commit and tried.

The wheel and the sdist, the Helm charts, the SBOM, the licences and the contents of the image, the changelog, and the
checksums of all of them. The same commit gives the same bytes (SOURCE_DATE_EPOCH is its time). Then each is installed
in an environment of its own, with the locked versions, and used; the charts are installed in a control plane. Nothing
is uploaded.

URL=https://… names the address of the repository; the metadata gets it, and the README's links lead there.
"""

import argparse
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from hack import sbom, sources
from hack.chart_package import add_jobset
from trainwright import __version__
from trainwright.controller.cli.versions import NAMESPACE, chart_version
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.waiting import GaveUp, eventually_sync

ROOT = Path(__file__).resolve().parent.parent
CHECKSUMS = "SHA256SUMS"
_MADE = re.compile(rf"trainwright[-_].*\.(whl|tar\.gz|tgz)|image-.*|CHANGELOG\.md|{CHECKSUMS}")
"""Names of the files of a release."""
SAMPLE = ROOT / "config" / "samples" / "02-torch.yaml"
CHARTS = {
    "trainwright": ("deployment",),
    # No manager runs, so its webhooks would refuse the runtimes.
    "trainwright-runtimes": ("clustertrainingruntime", "--set=exemptFromWebhooks=true"),
}
"""The charts in the order in which they are installed: a kind that each brings, and its options."""


class ReleaseError(Exception):
    """The message says what is wrong and what to do."""


def main() -> int:
    """Exit code 1 if something could not be made or does not work."""
    parser = argparse.ArgumentParser(prog="python -m hack.release", description="Make a release in dist/.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder (default: dist); emptied first")
    parser.add_argument("--url", default=os.environ.get("URL", ""), help="https address of the repository")
    parser.add_argument(
        "--no-try", action="store_true", help="only build, which needs no package index and no control plane"
    )
    arguments = parser.parse_args()
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="trainwright-release-") as folder:
            made = make(Path(folder), arguments.output, arguments.url, image=not arguments.no_try)
            for path in made:
                print(f"{path.stat().st_size / 1000:8.0f} kB  {path.name}", flush=True)
            if not arguments.no_try:
                for line in tried(Path(folder), arguments.output):
                    print(line, flush=True)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        command = " ".join(map(str, error.cmd))
        print(f"error: {command} failed\n{error.stderr or ''}".rstrip(), file=sys.stderr)
        return 1
    print(f"release {__version__}: {len(made)} files in {arguments.output}, in {time.monotonic() - began:.0f} s")
    return 0


def make(folder: Path, output: Path, url: str, *, image: bool) -> list[Path]:
    """Make the files. Raises CalledProcessError: a program failed.

    Raises ReleaseError: the checkout is no state to release, the output is in use, or a chart is of another version.
    """
    check()
    epoch = int(git("log", "-1", "--format=%ct"))
    tree = sources.committed(folder / "tree")
    if url:
        add_address(tree / "pyproject.toml", url)
    empty(output)
    sdist = sources.build("sdist", tree, output, epoch)
    wheel = sources.build("wheel", tree, output, epoch)
    try:
        add_jobset(tree / "charts" / "trainwright", folder)
    except ControlPlaneError as error:
        raise ReleaseError(f"JobSet's chart cannot be had: {error}") from error
    made = [wheel, sdist, *charts(tree, output, epoch)]
    if image:
        os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
        for name, text in sbom.documents(sbom.installed(wheel)).items():
            made.append(output / f"image-{name}")
            made[-1].write_text(text)
    made.append(output / "CHANGELOG.md")
    made[-1].write_text(changelog())
    sums = output / CHECKSUMS
    sums.write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(made)))
    return [*made, sums]


def empty(output: Path) -> None:
    """Make the folder, or delete the files of an earlier release in it. Raises ReleaseError: it holds others."""
    output.mkdir(parents=True, exist_ok=True)
    found = sorted(output.iterdir())
    if others := [one.name for one in found if one.is_dir() or not _MADE.fullmatch(one.name)]:
        raise ReleaseError(f"{output} holds {others[0]}, which no release made: empty it, or give another --output")
    for one in found:
        one.unlink()


def check() -> None:
    """Refuse what would not be the commit.

    Raises ReleaseError: there are changes, or the commit is tagged as another version.
    """
    if changed := git("status", "--porcelain"):
        raise ReleaseError(f"a release is made from a commit; commit or stash these first:\n{changed.rstrip()}")
    tags = git("tag", "--points-at", "HEAD", "--list", "v*").split()
    if tags and f"v{__version__}" not in tags:
        raise ReleaseError(f"the commit is tagged {', '.join(tags)}, and trainwright.__version__ is {__version__}")


def add_address(project: Path, url: str) -> None:
    """Write the address of the repository into the metadata. Raises ReleaseError: it is not an https address."""
    if not re.fullmatch(r"https://[^\s\"\\]+", url):
        raise ReleaseError(f"URL={url!r} is not an https address")
    address = url.rstrip("/")
    with project.open("a") as file:
        file.write(f'\n[project.urls]\nSource = "{address}"\nDocumentation = "{address}/blob/HEAD/docs/index.md"\n')


def charts(tree: Path, output: Path, epoch: int) -> Iterator[Path]:
    """Pack each Helm chart as `helm package` does: a folder of the chart's name in NAME-VERSION.tgz.

    Raises ReleaseError: a chart is of another version than the package.
    """
    for about in sorted(tree.glob("charts/*/Chart.yaml")):
        chart = yaml.safe_load(about.read_text())
        if (chart["version"], chart["appVersion"]) != (chart_version(), __version__):
            raise ReleaseError(
                f"chart {chart['name']} is of version {chart['version']} for {chart['appVersion']}, and this is "
                f"{chart_version()} for {__version__}: run make generate"
            )
        target = output / f"{chart['name']}-{chart['version']}.tgz"
        sources.pack(about.parent, target, epoch)
        yield target


def changelog() -> str:
    """The commits since the last release, newest first; since the beginning where there is none."""
    here = set(git("tag", "--points-at", "HEAD").split())
    before = git("tag", "--merged", "HEAD", "--sort=-creatordate", "--list", "v*").split()
    last = next((tag for tag in before if tag not in here), "")
    commits = git("log", "--no-merges", "--format=- %s (%h)", *([f"{last}..HEAD"] if last else [])).splitlines()
    shallow = git("rev-parse", "--is-shallow-repository").strip() == "true"
    since = last or ("the oldest commit of this shallow clone" if shallow else "the beginning")
    day = git("log", "-1", "--format=%cs").strip()
    return "\n".join(
        [f"# Trainwright {__version__}", "", f"{day}. {len(commits)} commits since {since}.", "", *commits, ""]
    )


def tried(folder: Path, output: Path) -> Iterator[str]:
    """Install what was made, and use it; a line for each.

    Raises ReleaseError: it does not do what it should; CalledProcessError: it cannot be installed, or fails.
    """
    for path in sorted([*output.glob("*.whl"), *output.glob("*.tar.gz")]):
        environment = folder / path.name
        run(sys.executable, "-m", "venv", environment)
        python = environment / "bin" / "python"
        pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        # With setuptools, which builds the sdist.
        run(*pip, "--require-hashes", "--requirement", ROOT / "hack" / "requirements-image.txt")
        run(*pip, "--no-deps", "--no-build-isolation", path)
        command = environment / "bin" / "trainwright"
        if (told := run(command, "--version").strip()) != f"trainwright {__version__}":
            raise ReleaseError(f"{path.name}: --version says {told!r}")
        if "PET_MASTER_ADDR" not in run(command, "render", "--filename", SAMPLE):
            raise ReleaseError(f"{path.name}: render does not render {SAMPLE.relative_to(ROOT)}")
        for name in ("manager", "explain", "doctor", "plugins", "progress"):
            run(command, name, "--help")
        yield f"{path.name}: installed; version, render, manager, explain, doctor, plugins and progress work"
    (wheel,) = output.glob("*.whl")
    (sdist,) = output.glob("*.tar.gz")
    again = rebuilt(folder, sdist)
    if again.read_bytes() != wheel.read_bytes():
        raise ReleaseError(f"{sdist.name} builds another wheel than the checkout")
    yield f"{sdist.name}: builds the same wheel, byte for byte"
    yield from installed_charts(folder, output)


def installed_charts(folder: Path, output: Path) -> Iterator[str]:
    """Install each packed chart in a control plane and remove it again; a line for each.

    Raises ReleaseError: there is no control plane, or what is installed is not what the chart is for;
    CalledProcessError: helm failed.
    """
    made = {path.name.removesuffix(f"-{chart_version()}.tgz"): path for path in output.glob("*.tgz")}
    if set(made) != set(CHARTS):
        raise ReleaseError(f"the charts are {', '.join(sorted(made))}, and not {', '.join(CHARTS)}")
    try:
        helm = provide(["helm"])["helm"]
        with ControlPlane() as plane:
            # Nothing of the user's own configuration of helm, or of the cluster of the current context.
            given = {f"HELM_{kind}_HOME": str(folder / "helm") for kind in ("CACHE", "CONFIG", "DATA")}
            given["KUBECONFIG"] = str(plane.kubeconfig)
            home = f"--namespace={NAMESPACE}"
            for name, (kind, *options) in CHARTS.items():
                run(helm, "lint", made[name], environment=given)
                # helm takes the kinds from the discovery of the API server, which follows new definitions by itself.
                eventually_sync(functools.partial(is_known, plane, kind), what=f"{kind} among the API resources")
                run(helm, "install", name, made[name], home, "--create-namespace", *options, environment=given)
                if not plane.kubectl("get", kind, home, "--output=name"):
                    raise ReleaseError(f"{made[name].name}: helm install makes no {kind}")
            for name in reversed(CHARTS):
                run(helm, "uninstall", name, home, environment=given)
                yield f"{made[name].name}: installed in a control plane, and removed"
    except (ControlPlaneError, GaveUp) as error:
        raise ReleaseError(f"the charts cannot be tried: {error}") from error


def is_known(plane: ControlPlane, kind: str) -> bool:
    """Whether the discovery of the API server has a kind."""
    return kind in plane.kubectl("api-resources", "--cached=false", "--no-headers").lower().split()


def rebuilt(folder: Path, sdist: Path) -> Path:
    unpacked = folder / "unpacked"
    shutil.unpack_archive(sdist, unpacked, filter="data")
    target = folder / "rebuilt"
    target.mkdir()
    (source,) = unpacked.iterdir()
    return sources.build("wheel", source, target, int(git("log", "-1", "--format=%ct")))


def run(*command: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """Standard output of a program, which runs outside of the checkout and its environment."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        list(map(str, command)),
        cwd=tempfile.gettempdir(),
        env={**inherited, **(environment or {})},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    raise SystemExit(main())
