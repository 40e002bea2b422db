# SPDX-License-Identifier: Apache-2.0
"""Finds variables whose reference to another one, `$(NAME)`, Kubernetes leaves as it is written.

In the value of a variable, only variables before it in the list are known; in commands and arguments all are. Plugins
add theirs after those of the runtime, and often after those of the TrainJob, so the author of a value cannot see it.
"""

import re
from collections.abc import Iterator, Mapping

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.messages import value_text
from trainwright.api.objects import Document, dig
from trainwright.plugins.contract import Component, Warned
from trainwright.plugins.contract.container import Setting

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
"""`$$` stands for a dollar."""
_VALUE_LIMIT = 80


def literal_references(components: tuple[Component, ...], settings: tuple[Setting, ...]) -> Iterator[Warned]:
    """A warning for each reference to a variable that comes later in its container."""
    sources = {setting.path: setting.source for setting in settings}
    for component in components:
        for job in (
            dig(component.document, "spec.replicatedJobs") or () if component.resource == JobSet.RESOURCE else ()
        ):
            pod = job["template"]["spec"]["template"]["spec"]
            for kind in ("initContainers", "containers"):
                for container in pod.get(kind) or ():
                    path = f"spec.replicatedJobs[{job['name']}].template.spec.template.spec.{kind}[{container['name']}]"
                    yield from _in_container(job["name"], container, path, sources)


def _in_container(job: str, container: Document, path: str, sources: Mapping[str, str]) -> Iterator[Warned]:
    env = container.get("env") or []
    for index, variable in enumerate(env):
        later = {other["name"] for other in env[index + 1 :]}
        for name in dict.fromkeys(_REFERENCE.findall(variable.get("value") or "")):
            if name in later:
                source = sources.get(f"{path}.env[{name}]")
                by = f", set by {source}" if source else ""
                where = f"variable {variable['name']} of container {container['name']} in replicated job {job}"
                value = value_text(variable["value"], _VALUE_LIMIT)
                yield Warned(
                    f"{where} stays {value}: {name} comes after it{by}; refer to it in the command or arguments, "
                    "or in the program"
                )
