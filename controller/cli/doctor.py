# SPDX-License-Identifier: Apache-2.0
"""`trainwright doctor`: examines an installation, and says what is wrong and what to do about it."""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainwright.controller.cli.reading import WRONG_USE, add_kubeconfig, chosen_cluster

if TYPE_CHECKING:
    from trainwright.api.objects import Document
    from trainwright.api.rights import Rule
    from trainwright.controller.trainer.doctor.examination import Examined
    from trainwright.controller.trainer.doctor.site import Site


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the sub-command."""
    parser = subparsers.add_parser(
        "doctor",
        help="say what is wrong with an installation",
        description="Examine an installation: JobSet, definitions, webhooks and their certificates, the leader, the "
        "rights of the manager, each runtime, devices, queues, quotas, clock. Nothing is changed; writes are dry runs. "
        "It needs no manager, and works with Kubeflow Trainer's own installations. Exit code 0 if nothing is wrong, 1 "
        "if something is, 2 if the cluster cannot be examined, 3 if nothing was found and not all could be checked.",
    )
    add_kubeconfig(parser)
    parser.add_argument(
        "-n",
        "--namespace",
        help="where objects are tried as dry runs (default: the one that the manager is limited to, or default)",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Examine; returns the exit code."""
    # Imported here: the help does not need it.
    from trainwright.controller.runtime import KubernetesError  # noqa: PLC0415
    from trainwright.controller.trainer.doctor.examination import examine  # noqa: PLC0415
    from trainwright.plugins.contract import RegistryError  # noqa: PLC0415

    try:
        examined = examine(asyncio.run(_gather(arguments)))
    except KubernetesError as error:
        print(f"error: the cluster cannot be examined: {error}", file=sys.stderr)
        return WRONG_USE
    except RegistryError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG_USE
    if arguments.output == "json":
        print(json.dumps([_plain(one) for one in examined], indent=2))
    else:
        print(text_of(examined))
    return code_of(examined)


def text_of(examined: "Sequence[Examined]") -> str:
    """What people read: a line for each check, and each finding with its remedy."""
    lines = []
    for one in examined:
        if one.is_sound:
            lines.append(f"{'ok':8} {one.title}")
        for finding in one.findings:
            lines += [f"{finding.level.value:8} {one.title}: {finding.message}", f"{'':8} to do: {finding.remedy}"]
    return "\n".join(lines)


def code_of(examined: "Sequence[Examined]") -> int:
    """The exit code."""
    from trainwright.controller.trainer.doctor.findings import Level  # noqa: PLC0415 - as above

    levels = {finding.level for one in examined for finding in one.findings}
    if levels & {Level.PROBLEM, Level.WARNING}:
        return 1
    return 3 if Level.UNKNOWN in levels else 0


def _plain(one: "Examined") -> dict[str, Any]:
    findings = [
        {"level": finding.level.value, "message": finding.message, "remedy": finding.remedy} for finding in one.findings
    ]
    return {"check": one.title, "findings": findings}


async def _gather(arguments: argparse.Namespace) -> "Site":
    from trainwright.controller.runtime import Client, HTTPTransport  # noqa: PLC0415 - as above
    from trainwright.controller.trainer.doctor.gathering import Gatherer  # noqa: PLC0415
    from trainwright.plugins.pipeline import Pipeline  # noqa: PLC0415
    from trainwright.plugins.registry import Registry, Selection  # noqa: PLC0415

    def tell(what: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[Kreading: {what}", end="" if what else "\r\x1b[K", file=sys.stderr, flush=True)

    client = Client(HTTPTransport(chosen_cluster(arguments)), user_agent="trainwright-doctor")
    try:
        pipeline = Pipeline(Registry.load(Selection.of(None)))
        gatherer = Gatherer(client, pipeline, needed_rights, shipped_definitions(), arguments.namespace, tell)
        return await gatherer.gather()
    finally:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        await client.close()


def shipped_definitions() -> "Mapping[str, Document]":
    """The CustomResourceDefinitions of this version, by name."""
    from trainwright.controller.cli.local.training import definitions  # noqa: PLC0415 - as above

    return {one["metadata"]["name"]: one for one in definitions()}


def needed_rights(site: "Site") -> "Sequence[tuple[str, Sequence[Rule]]]":
    """The rights that the manager of the site needs, by the namespace in which; empty for the whole cluster.

    They are those of the roles that `trainwright rbac` prints for it. Raises ConfigurationError.
    """
    import msgspec  # noqa: PLC0415 - as above

    from trainwright.api.config.v1alpha1 import Configuration  # noqa: PLC0415
    from trainwright.controller.cli.rbac import placed  # noqa: PLC0415
    from trainwright.controller.runtime import ConfigurationError  # noqa: PLC0415
    from trainwright.controller.trainer.assembly.features import parse_gates  # noqa: PLC0415
    from trainwright.controller.trainer.assembly.permissions import rights  # noqa: PLC0415
    from trainwright.controller.trainer.assembly.settings import settings_of  # noqa: PLC0415
    from trainwright.controller.trainer.doctor.site import DEFAULT_HOME  # noqa: PLC0415
    from trainwright.plugins.contract import RegistryError  # noqa: PLC0415
    from trainwright.plugins.registry import Registry  # noqa: PLC0415

    found = site.configuration if isinstance(site.configuration, dict) else {}
    try:
        configuration = msgspec.convert(found, Configuration)
        gates = parse_gates(site.feature_gates)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigurationError(f"the manager's Configuration: {error}") from error
    configuration.feature_gates = {**(configuration.feature_gates or {}), **gates}
    settings = settings_of(configuration)
    try:
        registry = Registry.load(settings.plugins)
    except RegistryError as error:
        problems = "; ".join(str(problem) for problem in error.problems)
        raise ConfigurationError(
            f"the plugins of the manager differ from those that are installed here: {problems}"
        ) from error
    return list(placed(rights(settings, registry, site.home or DEFAULT_HOME), site.only))
