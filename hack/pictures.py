# SPDX-License-Identifier: Apache-2.0
"""`make pictures`: makes docs/images, with Graphviz and from a running dashboard in a headless Chromium.

Each drawing names the text of docs/drawings that it was made from by its digest, which shows a text that was changed
and not drawn. For the others it starts a local cluster of its own in a temporary folder, trains two small models there
until their curves have a shape, and adds jobs that fail, complete, are stuck and are suspended. It takes two minutes,
and ends what it started.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.e2e.dashboard.conftest import launch
from tests.e2e.dashboard.running import LocalCluster, dashboard

DOCS = Path(__file__).resolve().parent.parent / "docs"
IMAGES = DOCS / "images"
MOST_BYTES = 150_000
"""Of one picture: they are in the repository, and each reader loads them."""
SECONDS = 180
"""For a state of a job to be seen."""

TRAINING = """
import json, math, os, pathlib, random, sys, time
from trainwright.progress import Reporter

name, steps, pause, breaks_at = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
checkpoint = pathlib.Path(f"{name}.json")
random.seed(7)
data = [(x, 3 * x + 1 + random.gauss(0, 0.3)) for x in (random.uniform(-1, 1) for _ in range(400))]
step, slope, offset = json.loads(checkpoint.read_text()) if checkpoint.exists() else (0, -2.0, -3.0)
begun = step
print("training from step", step, "on", len(data), "samples")
with Reporter(total=steps, every=1.0) as progress:
    while step < steps:
        rate = 0.008 * 0.5 * (1 + math.cos(math.pi * step / steps))
        batch = random.sample(data, 16)
        errors = [slope * x + offset - y for x, y in batch]
        down = 2 * sum(error * x for error, (x, _) in zip(errors, batch)) / len(batch)
        across = 2 * sum(errors) / len(batch)
        slope, offset, step = slope - rate * down, offset - rate * across, step + 1
        loss = sum(error * error for error in errors) / len(errors)
        norm = math.hypot(down, across)
        progress.update(step=step, loss=loss, metrics={"grad_norm": norm, "learning_rate": rate})
        if step % 10 == 0:
            print(f"step {step:4}  loss {loss:8.4f}  grad_norm {norm:7.4f}  lr {rate:.2e}", flush=True)
        if step % 50 == 0 and os.environ["PET_NODE_RANK"] == "0":
            part = checkpoint.with_suffix(".part")
            part.write_text(json.dumps([step, slope, offset]))
            part.replace(checkpoint)
        if step == breaks_at + 20 and begun == 0:
            raise ConnectionResetError("the other node has gone away")
        time.sleep(pause)
print("done")
"""
DIVERGES = """
import time
from trainwright.progress import Reporter

weight, rate = 1.0, 1.4
with Reporter(total=400, every=0.2) as progress:
    for step in range(1, 401):
        weight -= rate * 2 * weight * (1 + step / 40)
        loss = weight * weight
        progress.update(step=step, loss=loss)
        print(f"step {step}  loss {loss:.4g}", flush=True)
        if loss > 1e12:
            raise FloatingPointError(f"the loss is {loss:.3g} after {step} steps: lower the learning rate")
        time.sleep(0.1)
"""
TUNES = """
import math, os
from trainwright.progress import Reporter

rate, layers = float(os.environ["KUBEFLOW_TRAINER_OPT_LR"]), int(os.environ["KUBEFLOW_TRAINER_OPT_LAYERS"])
batch = int(os.environ["KUBEFLOW_TRAINER_OPT_BATCH"])
with Reporter(total=1) as progress:
    loss = 0.05 + 0.05 * (math.log10(rate) + 2.6) ** 2 + 0.012 * (layers - 5) ** 2 + 0.2 / batch
    progress.update(step=1, loss=loss)
"""
CLAIM_AND_RUNTIME = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: checkpoints}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch-restarts}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      failurePolicy: {maxRestarts: 3}
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            backoffLimit: 0
            template:
              spec:
                restartPolicy: Never
                volumes:
                - {name: app, configMap: {name: app}}
                - {name: checkpoints, persistentVolumeClaim: {claimName: checkpoints}}
                containers:
                - name: node
                  image: python
                  workingDir: /checkpoints
                  volumeMounts:
                  - {name: app, mountPath: /app}
                  - {name: checkpoints, mountPath: /checkpoints}
"""
PROGRAMS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "app"},
    "data": {"train.py": TRAINING, "diverges.py": DIVERGES, "tunes.py": TUNES},
}


def digest_of(text: bytes) -> str:
    """What a drawing says of its text."""
    return hashlib.sha256(text).hexdigest()[:16]


def draw(folder: Path) -> None:
    """Draw each text, without the version and the dates of the program. Raises CalledProcessError."""
    if shutil.which("dot") is None:
        sys.exit("error: no program `dot`: install Graphviz (on Debian: apt-get install graphviz)")
    for source in sorted((DOCS / "drawings").glob("*.dot")):
        text = source.read_bytes()
        drawn = subprocess.run(["dot", "-Tsvg"], input=text, stdout=subprocess.PIPE, check=True).stdout.decode()
        drawing = re.sub(r"<!-- Generated by.*?-->\n?", "", drawn[drawn.index("<svg") :], flags=re.DOTALL)
        about = f"Drawn by `make pictures` from drawings/{source.name}, {digest_of(text)}. Do not edit."
        file = folder / f"{source.stem}.svg"
        file.write_text(f"<!-- {about} -->\n{drawing}")
        print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")


def submit(cluster: LocalCluster, name: str, spec: dict[str, Any]) -> None:
    """Create a TrainJob of the runtime of these pictures, unless the spec names another one."""
    reference = {"kind": "ClusterTrainingRuntime", "name": "torch-restarts"}
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runtimeRef": reference, **spec},
    }
    cluster.send("POST", "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs", job)


def python(*arguments: str, nodes: int = 1) -> dict[str, Any]:
    """The trainer of a spec: a program of the ConfigMap in so many pods."""
    program, *others = arguments
    return {"numNodes": nodes, "command": ["python", "-u", f"/app/{program}"], "args": others}


def fill(cluster: LocalCluster) -> None:
    cluster.send("POST", "/api/v1/namespaces/default/configmaps", PROGRAMS)
    claim, runtime = yaml.safe_load_all(CLAIM_AND_RUNTIME)
    cluster.send("POST", "/api/v1/namespaces/default/persistentvolumeclaims", claim)
    runtimes = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"
    cluster.send("POST", runtimes, runtime)
    runtime["metadata"]["name"] = "torch-once"
    del runtime["spec"]["template"]["spec"]["failurePolicy"]
    cluster.send("POST", runtimes, runtime)
    # Name, steps, pause in seconds, and the step behind which the first attempt breaks.
    submit(cluster, "translation", {"trainer": python("train.py", "translation", "1200", "0.08", "300", nodes=2)})
    submit(cluster, "sentiment", {"trainer": python("train.py", "sentiment", "2500", "0.08", "9999", nodes=2)})
    submit(cluster, "digits", {"trainer": python("train.py", "digits", "400", "0.01", "9999")})
    submit(cluster, "high-rate", {"runtimeRef": {"name": "torch-once"}, "trainer": python("diverges.py")})
    large = {**python("train.py", nodes=4), "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}
    submit(cluster, "llama", {"trainer": large})
    submit(cluster, "nightly", {"suspend": True, "trainer": python("train.py")})


def tune(cluster: LocalCluster) -> None:
    """Create a search of thirty short trials."""
    ranges = {
        "lr": {"logUniform": {"min": "1e-5", "max": "1e-1"}},
        "batch": {"categorical": {"choices": ["16", "32", "64"]}},
    }
    ranges["layers"] = {"uniform": {"min": "1", "max": "8", "type": "Int"}}
    spec = {
        "objectives": [{"metric": "loss"}],
        "parameters": [{"name": name, "searchSpace": space} for name, space in ranges.items()],
        "searchAlgorithm": {"random": {"seed": 3}},
        "numTrials": 30,
        "parallelTrials": 5,
        "trainJobTemplate": {"spec": {"runtimeRef": {"name": "torch-once"}, "trainer": python("tunes.py")}},
    }
    search = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "OptimizationJob",
        "metadata": {"name": "tuning", "annotations": {"trainwright.io/sampler": "tpe"}},
        "spec": spec,
    }
    cluster.send("POST", "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/optimizationjobs", search)


def row(page: Page, name: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


class Album:
    def __init__(self, browser: Browser, address: str, folder: Path) -> None:
        self._browser = browser
        self._address = address
        self._folder = folder

    def open(self, job: str = "", *, theme: Any = "light", width: int = 1280, height: int = 800) -> Page:
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
        )
        page = context.new_page()
        page.goto(self._address)
        expect(page.locator("#link")).to_have_text("Live")
        if job:
            page.get_by_role("link", name=job, exact=True).click()
            expect(page.locator(".job")).to_be_visible()
            page.evaluate("document.activeElement.blur()")
        return page

    def take(self, page: Page, name: str) -> None:
        """Take a picture of what is seen, and close the page.

        Raises SystemExit if it is too large or shows a path of this machine.
        """
        if tempfile.gettempdir() in page.locator("body").inner_text():
            sys.exit(f"{name} shows a path of this machine: {tempfile.gettempdir()}")
        file = self._folder / f"{name}.png"
        file.write_bytes(page.screenshot())
        print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")
        if file.stat().st_size > MOST_BYTES:
            sys.exit(f"{file} has more than {MOST_BYTES / 1000:.0f} kB; show less of the page")
        page.context.close()


def take_all(album: Album) -> None:
    """Take the pictures, each as soon as the jobs are as far."""
    page = album.open()
    states = {"digits": "Complete", "high-rate": "Failed", "llama": "Stuck", "nightly": "Suspended"}
    for name, state in states.items():
        expect(row(page, name)).to_contain_text(state)
    # Behind the break of its first attempt.
    expect(row(page, "translation").locator(".row-percent")).to_have_text(re.compile(r"^[67]\d%$"))
    album.take(page, "dashboard-jobs")
    page = album.open("translation", height=900)
    expect(page.locator("figure canvas").first).to_be_visible()
    expect(page.locator('figure[data-metric="loss"] .chart-value')).not_to_be_empty()
    album.take(page, "dashboard-job")
    page = album.open("sentiment", theme="dark", height=900)
    expect(page.locator("pre.log")).to_contain_text("loss")
    page.get_by_role("button", name="Log of rank 1").click()
    album.take(page, "dashboard-log-dark")
    page = album.open("high-rate", height=720)
    expect(page.get_by_role("region", name="Why it failed")).to_contain_text("lower the learning rate")
    album.take(page, "dashboard-failed")
    page = album.open("translation")
    page.get_by_text("What the job became").click()
    lines = page.locator(".yaml .line")
    expect(lines.filter(has_text="PET_NNODES")).to_be_visible()
    # The values that the plugin sets, in the middle.
    lines.filter(has_text="PET_NNODES").evaluate("node => node.scrollIntoView({block: 'center'})")
    page.locator(".objects-details > summary").evaluate("node => node.scrollIntoView({block: 'start'})")
    album.take(page, "dashboard-objects")
    page = album.open("translation", width=390, height=844)
    album.take(page, "dashboard-phone")


def take_search(album: Album) -> None:
    """Take the picture of a search that has ended."""
    page = album.open()
    expect(page.get_by_role("link", name="tuning-30", exact=True)).to_have_count(1)
    page.get_by_role("link", name="tuning", exact=True).click()
    expect(page.locator(".job-head .state")).to_have_text("Complete")
    expect(page.locator(".shares")).to_be_visible()
    page.evaluate("document.activeElement.blur()")
    album.take(page, "dashboard-search")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=IMAGES, help="where the pictures go (default: docs/images)")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    draw(folder)
    os.environ["TZ"] = "UTC"
    expect.set_options(timeout=SECONDS * 1000)
    with tempfile.TemporaryDirectory(prefix="pictures-") as temporary:
        cluster = LocalCluster(Path(temporary))
        try:
            fill(cluster)
            with dashboard(cluster.kubeconfig) as address, sync_playwright() as playwright:
                browser = launch(playwright)
                album = Album(browser, address, folder)
                take_all(album)
                tune(cluster)
                take_search(album)
                browser.close()
        finally:
            cluster.end()


if __name__ == "__main__":
    main()
