# SPDX-License-Identifier: Apache-2.0
"""The dashboard's page in Chromium while jobs report and a user scrolls: tasks that hold up the page, and its frames.

Each job reports every 5 s. A task of more than 50 ms is what a user may notice. The list of 1,000 jobs is compared with
that of 10 in the same run, since both change with the machine. The stub of the page's tests answers: the cost of
`trainwright dashboard` itself is not in these figures.
"""

import argparse
import sys
from pathlib import Path

import msgspec
from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.e2e.dashboard.conftest import CHROMIUM, launch
from tests.e2e.dashboard.stub import Stub, many, sample, sample_job, serving
from trainwright.controller.dashboard import contract, curves

REPORT_SECONDS = 5.0
TICK_SECONDS = 0.25
CURVES = 12
POINTS = 600
OBSERVE = """() => {
  const seen = { tasks: [], frames: [] };
  window.seen = seen;
  new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map(({ duration }) => duration)))
    .observe({ entryTypes: ["longtask"] });
  let before = performance.now();
  const frame = (at) => { seen.frames.push(at - before); before = at; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""


class Watched:
    """What a page does from now on."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable")
        self._begin = self._used()
        page.evaluate(OBSERVE)

    def _used(self) -> tuple[float, float]:
        """The time, and the seconds of a core that the page's main thread has used."""
        found = {one["name"]: one["value"] for one in self._session.send("Performance.getMetrics")["metrics"]}
        return float(found["Timestamp"]), float(found["ThreadTime"])

    def tell(self, name: str) -> None:
        """Print it."""
        (at, used), (begin, before) = self._used(), self._begin
        tasks, frames = self._page.evaluate("[window.seen.tasks, window.seen.frames.slice(2).sort((a, b) => a - b)]")
        late = frames[int(len(frames) * 0.99)]
        share = (used - before) / (at - begin)
        print(f"{name:28} {share:8.1%} {max(tasks, default=0):11.0f} {len(tasks):6} {late:10.0f} {frames[-1]:11.0f}")


def listed(browser: Browser, count: int, seconds: float) -> None:
    """A list of so many jobs, all of which report."""
    with serving(Stub()) as stub:
        stub.jobs = many(count)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(stub.url)
        page.locator(".rows .row").first.wait_for()
        watched = Watched(page)
        share = max(1, round(count * TICK_SECONDS / REPORT_SECONDS))
        for turn in range(int(seconds / TICK_SECONDS)):
            first = turn * share % count
            changed = [
                msgspec.structs.replace(row, percentage=turn % 100, version=str(turn))
                for row in stub.jobs.jobs[first : first + share]
            ]
            stub.send("rows", contract.Rows(now=stub.jobs.now, changed=changed, deleted=[]))
            page.mouse.wheel(0, 900 if turn // 10 % 2 else -900)
            page.wait_for_timeout(TICK_SECONDS * 1000)
        watched.tell(f"list of {count} jobs")
        page.close()


def charted(browser: Browser, seconds: float) -> None:
    """One job with long curves, which reports each second."""
    job = sample_job("running")
    key = f"{job.row.namespace}/{job.row.name}"
    series: curves.JobSeries = sample("series", curves.JobSeries)

    def points(first: int, count: int) -> curves.Points:
        return curves.Points(
            uid=job.row.uid,
            number=first + count,
            replace=False,
            times=[1_795_343_400.0 + index for index in range(first, first + count)],
            steps=[float(index) for index in range(first, first + count)],
            percentages=[min(99, index // 25) for index in range(first, first + count)],
            curves=[
                curves.Curve(name=f"loss_{curve}", values=[1 / (1 + index) for index in range(count)], not_finite=[])
                for curve in range(CURVES)
            ],
            marks=[],
        )

    with serving(Stub()) as stub:
        stub.series[key] = msgspec.structs.replace(series, points=points(0, POINTS))
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(stub.url + stub.put(job))
        page.locator("figure canvas").first.wait_for()
        watched = Watched(page)
        for turn in range(int(seconds)):
            stub.send("points", points(POINTS + turn, 1), key)
            stub.send("job", job, key)
            page.wait_for_timeout(1000)
        watched.tell(f"{CURVES} curves of {POINTS} points")
        page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each page is watched")
    seconds = parser.parse_args().seconds
    if not CHROMIUM:
        print("left out: there is no Chromium; install it, or name it in TRAINWRIGHT_CHROMIUM")
        return
    print(f"{'':28} {'CPU':>8} {'longest task':>11} {'> 50':>6} {'frame p99':>10} {'longest':>11}   (ms)")
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for count in (10, 100, 1000):
            listed(browser, count, seconds)
        charted(browser, seconds)
        browser.close()


if __name__ == "__main__":
    main()
