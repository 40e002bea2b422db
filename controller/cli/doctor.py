# SPDX-License-Identifier: Apache-2.0
"""`trainwright doctor`: examines an installation, and says what is wrong and what to do about it."""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence

import msgspec

from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.errors import UserError
from trainwright.api.objects import Document
from trainwright.api.rights import Rule
from trainwright.controller.cli.access import chosen_cluster
from trainwright.controller.cli.arguments.values import gates
from trainwright.controller.cli.local.training import definitions
from trainwright.controller.cli.rbac import placed
from trainwright.controller.runtime import Client, ConfigurationError, HTTPTransport, KubernetesError
from trainwright.controller.trainer.assembly.parts import rights
from trainwright.controller.trainer.assembly.settings import settings_of
from trainwright.controller.trainer.why.kinds import DEFAULT_HOME
from trainwright.controller.trainer.why.site.examination import Examined, examine, gather
from trainwright.controller.trainer.why.site.survey import NOTE, PROBLEM, WARNING, SiteSurvey
from trainwright.controller.views.explanation import lines_of_cause, shown_cause
from trainwright.plugins.contract.errors import RegistryError
from trainwright.plugins.contract.picture import Cause
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection

_WORDS = {PROBLEM: "problem", WARNING: "warning", NOTE: "note"}
_UNREAD = "ask for the right to read it, or let a cluster admin run this command"


def run(arguments: argparse.Namespace) -> int:
    try:
        examined = examine(asyncio.run(_gather(arguments)))
    except KubernetesError as error:
        raise UserError(f"the cluster cannot be examined: {error}") from error
    if arguments.output == "json":
        found = [
            {"check": one.title, "findings": list(map(_shown, one.findings)), "notRead": one.unread} for one in examined
        ]
        print(json.dumps(found, indent=2))
    else:
        print(text_of(examined))
    return code_of(examined)


def text_of(examined: Sequence[Examined]) -> str:
    """What people read: a line for each check, and each finding with its remedy."""
    lines = []
    for one in examined:
        if one.is_sound:
            lines.append(f"{'ok':8} {one.title}")
        for finding in one.findings:
            lines += lines_of_cause(f"{_WORDS[finding.severity]:8} {one.title}: ", finding, indent=9)
        if one.unread:
            lines += [f"{'unknown':8} {one.title}: not checked: {one.unread}", f"{'':8} to do: {_UNREAD}"]
    return "\n".join(lines)


def _shown(finding: Cause) -> Document:
    """A finding as JSON, with the severity in the words of the text."""
    return {**msgspec.to_builtins(shown_cause(finding)), "severity": _WORDS[finding.severity]}


def code_of(examined: Sequence[Examined]) -> int:
    if any(finding.severity is not NOTE for one in examined for finding in one.findings):
        return 1
    return 3 if any(one.unread for one in examined) else 0


async def _gather(arguments: argparse.Namespace) -> SiteSurvey:
    def tell(what: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[Kreading: {what}", end="" if what else "\r\x1b[K", file=sys.stderr, flush=True)

    client = Client(HTTPTransport(chosen_cluster(arguments)), user_agent="trainwright-doctor")
    try:
        pipeline = Pipeline(Registry.load(Selection.of(None)))
        return await gather(client, pipeline, needed_rights, shipped_definitions(), arguments.namespace, tell)
    finally:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        await client.close()


def shipped_definitions() -> Mapping[str, Document]:
    return {one["metadata"]["name"]: one for one in definitions()}


def needed_rights(site: SiteSurvey) -> Sequence[tuple[str, Sequence[Rule]]]:
    """The rights that the manager of the site needs, by the namespace in which; empty for the whole cluster.

    They are those of the roles that `trainwright rbac` prints for it. Raises ConfigurationError.
    """
    found = site.if_read("configuration") or {}
    try:
        configuration = msgspec.convert(found, Configuration)
        on_or_off = gates(site.feature_gates)
    except (msgspec.ValidationError, argparse.ArgumentTypeError) as error:
        raise ConfigurationError(f"the manager's Configuration: {error}") from error
    configuration.feature_gates = {**(configuration.feature_gates or {}), **on_or_off}
    settings = settings_of(configuration, in_cluster=True)
    try:
        registry = Registry.load(settings.plugins)
    except RegistryError as error:
        problems = "; ".join(str(problem) for problem in error.problems)
        raise ConfigurationError(
            f"the plugins of the manager differ from those that are installed here: {problems}"
        ) from error
    return list(placed(rights(settings, registry, site.home or DEFAULT_HOME), site.only))
