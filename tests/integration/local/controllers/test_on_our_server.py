# SPDX-License-Identifier: Apache-2.0
"""Our controllers on our API server make what is recorded of the real ones on the real one.

All of it is in one process on virtual time: what a checkpoint waits for, such as two seconds in which nothing changes,
takes no time. `test_same_as_the_real_ones` runs the real ones beside ours, and compares the recordings, too.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.integration.local.controllers.comparison import Scenario, differences, name_of_scenario, with_the_recording
from tests.integration.local.controllers.conftest import Controllers
from tests.integration.local.controllers.recordings import FOLDER
from tests.integration.local.controllers.scenarios import ALONE, CPU, SCENARIOS
from trainwright.api.objects import Document
from trainwright.api.surroundings import entered
from trainwright.controller.local.apiserver.http.transport import InProcessTransport
from trainwright.controller.local.apiserver.identity.tokens import SigningKey
from trainwright.controller.local.apiserver.store import ObjectStore
from trainwright.controller.local.cluster import assembled, install
from trainwright.controller.local.controllers import CONTROLLERS
from trainwright.controller.local.controllers import jobset_webhooks as webhooks
from trainwright.controller.local.controllers.base import ControllerSettings
from trainwright.controller.local.reviews import answerer
from trainwright.controller.runtime import Client, ClusterConfig
from trainwright.controller.runtime.certificates.configurations import webhooks_by_url
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.simulation.determinism import Chance, SimulatedSurroundings, Trace
from trainwright.controller.simulation.loop import SimulatedLoop
from trainwright.controller.simulation.network import FaultProfile, Network

_WEBHOOKS = "https://jobset.test"
"""Nothing listens there: the API server calls the handlers in its own process."""
_TOKEN = "test"
_AUTHORITY = b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
_AT_ONCE = 8


def compared(scenarios: Sequence[Scenario], folder: Path, *, cpu: str) -> dict[str, str]:
    """What differs from the recordings, by the name of the scenario."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(_compared(scenarios, folder, cpu))


async def _compared(scenarios: Sequence[Scenario], folder: Path, cpu: str) -> dict[str, str]:
    chance = Chance("workloads")
    around, config = SimulatedSurroundings(chance, "test"), ClusterConfig(server="https://simulated", token=_TOKEN)
    with entered(around):
        store = ObjectStore(None, now=lambda: around.now().timestamp())
        made = await assembled(
            store,
            token=_TOKEN,
            signing_key=SigningKey(ec.generate_private_key(ec.SECP256R1())),
            authority=_AUTHORITY,
            service_accounts=False,
            for_others=True,
            requests=None,
            address=lambda: config.server,
            now=around.now,
        )

        def transport(name: str) -> Network:
            inner = InProcessTransport(made.server, _TOKEN)
            heard = lambda *_: None  # noqa: E731 - three times
            return Network(inner, name, FaultProfile(), Trace(), chance.of(name), heard, heard, heard)

        async with TaskScope("server") as tasks:
            running = tasks.start("definitions", made.definitions.run())
            client = Client(transport("webhooks"), user_agent="webhooks")
            made.webhooks.answer_here(_WEBHOOKS, answerer(webhooks.HANDLERS))
            hooks = [webhooks_by_url(one, _WEBHOOKS, b"", {}) for one in webhooks.configurations()]
            await install(client, [jobset_definition(), *hooks], owner="test")
            settings = ControllerSettings(authority=_AUTHORITY.decode(), volumes=folder / "volumes")
            controllers = Controllers(config, transport, settings, tuple(CONTROLLERS), watchdog=False)
            async with controllers.living("default", cpu=cpu) as world:
                found = await differences([world], scenarios, with_the_recording, at_once=_AT_ONCE)
            running.cancel()
        await made.webhooks.close()
        return found


def jobset_definition() -> Document:
    """The definition that the local cluster installs."""
    file = Path(webhooks.__file__).parent / "jobsets.crd.json"
    definition: Document = json.loads(file.read_bytes())
    del definition["//"]
    return definition


def test_they_do_the_same(tmp_path: Path) -> None:
    found = compared(SCENARIOS, tmp_path, cpu=CPU)
    assert not found, "\n\n".join(f"{name}: {text}" for name, text in found.items())


@pytest.mark.parametrize("scenario", ALONE, ids=name_of_scenario)
def test_they_do_the_same_with_a_node_of_their_own(tmp_path: Path, scenario: Scenario) -> None:
    found = compared([scenario], tmp_path, cpu="8")
    assert not found, "\n\n".join(found.values())


def test_nothing_is_recorded_that_is_not_run() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {name_of_scenario(one) for one in (*SCENARIOS, *ALONE)}
