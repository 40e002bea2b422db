# SPDX-License-Identifier: Apache-2.0
"""`make chart`: packages the charts into build/charts, that of the manager with JobSet's own chart in it.

JobSet's chart comes from JobSet's Go module, at the version of the test control plane and checked against go.sum. It is
in no commit: a chart that lists a dependency cannot be rendered without it, and the charts of a checkout need no
network.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from trainwright.controller.runtime.testing.build import find_go, provide
from trainwright.controller.runtime.testing.tools import MODULES

ROOT = Path(__file__).resolve().parent.parent
CHARTS = ("trainwright", "trainwright-runtimes")
REPOSITORY = "oci://registry.k8s.io/jobset/charts"
"""Where JobSet publishes the same chart."""


def package(folder: Path) -> list[Path]:
    """Package both charts into the folder; returns the archives.

    Raises ControlPlaneError: helm or Go cannot be provided; CalledProcessError: JobSet's module cannot be downloaded,
    or helm refuses a chart.
    """
    folder.mkdir(parents=True, exist_ok=True)
    helm = provide(["helm"])["helm"]
    with tempfile.TemporaryDirectory() as scratch:
        for name in CHARTS:
            copy = Path(scratch) / name
            shutil.copytree(ROOT / "charts" / name, copy)
            if name == "trainwright":
                add_jobset(copy, Path(scratch))
            subprocess.run([helm, "package", copy, f"--destination={folder}"], check=True, stdout=subprocess.DEVNULL)
    return [folder / f"{name}-{_chart(ROOT / 'charts' / name)['version']}.tgz" for name in CHARTS]


def add_jobset(chart: Path, scratch: Path) -> None:
    """Put JobSet's chart into a copy of the manager's chart, as a dependency that is off by default.

    Raises ControlPlaneError: Go cannot be provided; CalledProcessError: JobSet's module cannot be downloaded.
    """
    work = scratch / "module"
    work.mkdir()
    module = next(module for module in MODULES if module.name == "jobset")
    for file in module.sources:
        shutil.copyfile(file, work / file.name)
    go, environment = find_go(scratch, (1, 26))
    subprocess.run([go, "mod", "download", module.path], cwd=work, env=environment, check=True)
    listing = [str(go), "list", "-m", "-f", "{{.Dir}}", module.path]
    source = Path(subprocess.check_output(listing, cwd=work, env=environment, text=True).strip())
    target = chart / "charts" / "jobset"
    shutil.copytree(source / "charts" / "jobset", target, copy_function=shutil.copyfile)
    # Go's module cache is read-only, and the copy has to be removed again.
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    document = _chart(chart)
    dependency = {"name": "jobset", "version": _chart(target)["version"], "repository": REPOSITORY}
    document["dependencies"] = [{**dependency, "condition": "jobset.install"}]
    (chart / "Chart.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


def _chart(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "Chart.yaml").read_text())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m hack.chart_package", description="Package the Helm charts.")
    default = ROOT / "build" / "charts"
    parser.add_argument("folder", nargs="?", type=Path, default=default, help="where to (default: build/charts)")
    for path in package(parser.parse_args().folder):
        print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
