# SPDX-License-Identifier: Apache-2.0
"""The templates of the runtimes' chart: each runtime of config/runtimes, with its switch and its images."""

import re
from pathlib import Path

from hack.helm_chart.templates import CONFIG, banner
from hack.helm_chart.values import NEEDS_MORE

_LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"
_LABELS = "  labels:\n"
_IMAGE = re.compile(r"^(?P<before> +(?:- )?(?:image|value): )(?P<name>[\w./-]+):(?P<tag>[\w.-]+)$", re.MULTILINE)
INITIALIZER_ROLE = "runtimes/data-cache/initializer_role.yaml"


def runtime(name: str, path: Path) -> str:
    """The template of a runtime.

    Raises:
        ValueError: the file does not have labels or images where they are expected.
    """
    body = path.read_text().removeprefix(_LICENCE)
    if body.count(_LABELS) < 1 or "{{" in body:
        raise ValueError(f"{path.name} cannot be made a template: it has no labels, or braces")
    exempt = (
        "    {{- if .Values.exemptFromWebhooks }}\n"
        "    trainer.kubeflow.org/webhook-validation: disabled\n"
        "    {{- end }}\n"
    )
    body = body.replace(_LABELS, _LABELS + exempt, 1)
    body, count = _IMAGE.subn(_image, body)
    if not count:
        raise ValueError(f"{path.name} names no image")
    extra = ""
    if name in NEEDS_MORE:
        extra = "---\n" + (CONFIG / INITIALIZER_ROLE).read_text().removeprefix(_LICENCE)
    whole = banner(f"config/{path.relative_to(CONFIG)}") + body + extra
    return f'{{{{- if index .Values.runtimes "{name}" }}}}\n{whole}{{{{- end }}}}\n'


def _image(match: re.Match[str]) -> str:
    name, whole = match["name"], f"{match['name']}:{match['tag']}"
    return f'{match["before"]}{{{{ get .Values.images "{name}" | default "{whole}" | quote }}}}'
