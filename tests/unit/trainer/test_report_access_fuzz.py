# SPDX-License-Identifier: Apache-2.0
"""Authorization headers that nobody means well with: 10,000 random ones and 10,000 changed tokens.

None is accepted, each is refused as such (never as a failure of the server), and none costs memory or a request.
"""

import gc
import random
import tracemalloc

from tests.issuers import Signer
from tests.unit.trainer.headers import changed, random_header
from tests.unit.trainer.reporting import JOB, SPACE, Cluster
from trainwright.api.trainer.v1alpha1.progress import report_audience
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.trainer.progress.access import ReporterForbidden

COUNT = 10_000
KEPT_BYTES = 100_000
"""What may be kept after 5,000 headers: caches of the interpreter. A leak of 20 bytes a header would be more."""


async def refuse_all(cluster: Cluster, headers: list[str], valid: str) -> None:
    for header in headers:
        fields = header.split()
        if len(fields) == 2 and fields[1] == valid:
            continue  # the change changed nothing
        try:
            await cluster.access.check(header, SPACE, JOB)
        except ReporterForbidden:
            continue
        raise AssertionError(f"accepted: {header!r}")


@jumping
async def test_random_headers_and_changed_tokens_are_refused() -> None:
    chance = random.Random(18)
    for signer in (Signer("ES256"), Signer("RS256")):
        async with Cluster(signer=signer) as cluster:
            valid = cluster.token(pod=("node-0", "pod-uid"))
            await cluster.access.check(f"Bearer {valid}", SPACE, JOB)
            others = [cluster.token(report_audience(SPACE, "other")), cluster.token(exp=1), valid]
            half = COUNT // 4
            headers = [random_header(chance) for _ in range(2 * half)]
            headers += [f"Bearer {changed(chance, valid, others)}" for _ in range(2 * half)]
            chance.shuffle(headers)
            await refuse_all(cluster, headers[: 2 * half], valid)
            gc.collect()
            tracemalloc.start()
            try:
                await refuse_all(cluster, headers[2 * half :], valid)
                gc.collect()
                kept, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert kept < KEPT_BYTES
            keys = [request for request in cluster.transport.requests if request.path.endswith("jwks")]
            assert len(keys) == 1, "the clock stands still, so unknown keys are looked for once"
            await cluster.access.check(f"Bearer {valid}", SPACE, JOB)
