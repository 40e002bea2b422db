# SPDX-License-Identifier: Apache-2.0
"""The command of an operator: `run`, `rbac`, `crds`, `render-manifests`."""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from trainwright.api.names import dns_label
from trainwright.api.objects import Document
from trainwright.controller.runtime.app import manifests
from trainwright.controller.runtime.app.declarations import Operator
from trainwright.controller.runtime.client.config import ClusterConfig, is_in_cluster, load_config
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.leaderelection.elector import LeaderElector
from trainwright.controller.runtime.manager.logs import configure_logging
from trainwright.controller.runtime.manager.manager import Elector, Manager, ProcessSettings, ServerSettings
from trainwright.controller.runtime.manager.process import run

if TYPE_CHECKING:
    from trainwright.controller.runtime.webhook.webhooks import Certificates

EXIT_USAGE = 2
DRAIN_SECONDS = 5.0
_CHOICES = {
    "leader_election": ("auto", "on", "off"),
    "log_level": ("debug", "info", "warning", "error"),
    "log_format": ("text", "json"),
}


class MakesManager(Protocol):
    """`App.manager`."""

    def __call__(
        self,
        config: ClusterConfig,
        *,
        namespace: str,
        servers: ServerSettings,
        process: ProcessSettings,
        elector: Elector | None,
        webhooks: "Certificates | None",
        webhook_address: str,
    ) -> Manager: ...


def command(operator: Operator, make: MakesManager, arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 1 after a failure, 2 for wrong options or declarations."""
    parser = _Options(operator.name)
    options = parser.parse_args(arguments)
    try:
        _check_places(options)
        if options.command == "run":
            return _run(operator, make, options)
        _print(_documents(operator, options))
    except ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    return 0


class _Options(argparse.ArgumentParser):
    """Each option of `run` can come from the environment: for `web`, `--probe-address` from `WEB_PROBE_ADDRESS`."""

    def __init__(self, name: str) -> None:
        super().__init__(description=f"The operator {name}.", allow_abbrev=False)
        self._prefix = name.upper().replace("-", "_")
        commands = self.add_subparsers(dest="command", required=True, parser_class=argparse.ArgumentParser)
        self._run(commands.add_parser("run", help="reconcile until SIGTERM"))
        rights = commands.add_parser("rbac", help="print the account, its roles and their bindings")
        _place(rights, name)
        rights.add_argument("--webhook-url", default="", help="as of run: with the rights to register its webhooks")
        commands.add_parser("crds", help="print the CustomResourceDefinitions of its own kinds")
        everything = commands.add_parser("render-manifests", help="print everything that an installation consists of")
        _place(everything, name)
        everything.add_argument("--image", required=True, help="image of the container")
        everything.add_argument("--replicas", type=int, default=2, help="of which one leads (default: %(default)s)")
        everything.add_argument(
            "--entrypoint",
            nargs="+",
            default=(),
            help="command of the container, such as python /web.py; default: that of the image",
        )

    def _run(self, parser: argparse.ArgumentParser) -> None:
        def add(name: str, default: str | None, text: str, choices: Sequence[str] | None = None) -> None:
            variable = f"{self._prefix}_{name.removeprefix('--').upper().replace('-', '_')}"
            parser.add_argument(
                name,
                default=os.environ.get(variable, default),
                choices=choices,
                help=f"{text} (default: {default or 'none'}; environment: {variable})",
            )

        add("--kubeconfig", None, "file; else $KUBECONFIG, the account of the pod, or ~/.kube/config")
        add("--context", None, "context of the kubeconfig")
        add("--only-namespace", "", "reconcile the objects of this namespace alone")
        add("--metrics-address", "127.0.0.1:8080", "host:port of /metrics; empty: none")
        add("--probe-address", "127.0.0.1:8081", "host:port of /healthz and /readyz; empty: none")
        add("--webhook-address", ":9443", "host:port of its webhooks, if it has any")
        add(
            "--webhook-url",
            "",
            "outside of a cluster: where the API server reaches them; registers defaulting and validation, with the"
            " rights that rbac --webhook-url prints",
        )
        add("--leader-election", "auto", "one replica works at a time; auto: in a cluster", _CHOICES["leader_election"])
        add("--log-level", "info", "what is logged", _CHOICES["log_level"])
        add("--log-format", "text", "of log lines", _CHOICES["log_format"])


def _place(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--namespace", default=name, help="where it runs (default: %(default)s)")
    parser.add_argument("--only-namespace", default="", help="it reconciles the objects of this namespace alone")


def _run(operator: Operator, make_manager: MakesManager, options: argparse.Namespace) -> int:
    for name in _CHOICES:
        _check(options, name)
    configure_logging(options.log_level.upper(), options.log_format)

    def make() -> Manager:
        config = load_config(options.kubeconfig, options.context)
        in_cluster = is_in_cluster(config)
        # Nodes go on sending webhooks to a pod for a moment after it was told to stop.
        drain = DRAIN_SECONDS if in_cluster and operator.serves else 0.0
        elects = options.leader_election == "on" or (options.leader_election == "auto" and in_cluster)
        return make_manager(
            config,
            namespace=options.only_namespace,
            servers=ServerSettings(metrics=options.metrics_address or None, probes=options.probe_address or None),
            process=ProcessSettings(tune_collector=True, drain=drain),
            elector=LeaderElector(config, operator.name, user_agent=operator.name) if elects else None,
            webhooks=_certificates(operator, config, options.webhook_url) if operator.serves else None,
            webhook_address=options.webhook_address,
        )

    return run(make)


def _certificates(operator: Operator, config: ClusterConfig, url: str) -> "Certificates | None":
    # They need a library that operators without webhooks need not have.
    from trainwright.controller.runtime.webhook.webhooks import certificates_for  # noqa: PLC0415

    return certificates_for(config, service=operator.name, secret=operator.secret, webhook_url=url)


def _check_places(options: argparse.Namespace) -> None:
    for option in ("namespace", "only_namespace"):
        text = getattr(options, option, "")
        if text and (problems := dns_label(text)):
            raise ConfigurationError(f"--{option.replace('_', '-')} is {text!r}: {problems[0]}")
    if getattr(options, "replicas", 0) < 0:
        raise ConfigurationError(f"--replicas is {options.replicas}: write 0 or more")


def _check(options: argparse.Namespace, name: str) -> None:
    """argparse does not check a default, which the environment may have given."""
    if getattr(options, name) not in _CHOICES[name]:
        raise ConfigurationError(
            f"--{name.replace('_', '-')} is {getattr(options, name)!r}: write one of {', '.join(_CHOICES[name])}"
        )


def _documents(operator: Operator, options: argparse.Namespace) -> list[Document]:
    if options.command == "crds":
        return manifests.definitions(operator)
    if options.command == "rbac":
        return manifests.rbac(
            operator, options.namespace, watched=options.only_namespace, by_url=bool(options.webhook_url)
        )
    return manifests.installation(
        operator,
        image=options.image,
        namespace=options.namespace,
        replicas=options.replicas,
        watched=options.only_namespace,
        command=options.entrypoint,
    )


def _print(documents: Iterable[Document]) -> None:
    import yaml  # noqa: PLC0415 - `run` in a cluster does not need it

    sys.stdout.write(yaml.safe_dump_all(documents, sort_keys=False))
