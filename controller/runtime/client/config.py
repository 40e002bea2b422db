# SPDX-License-Identifier: Apache-2.0
"""Address of the API server and credentials, from kubeconfig files or the service account of the pod.

Tokens, token files and client certificates are read here. An exec plugin or an auth provider is only noted;
`client.external` passes it to the `kubernetes` package, which is imported only for those.
"""

import base64
import binascii
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.controller.runtime.errors import ConfigurationError, NoClusterError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Everything that a transport needs. `repr` omits secrets."""

    server: str
    """Base URL, for example https://10.0.0.1:6443; a path prefix is kept."""
    namespace: str = "default"
    """The namespace of the context, or of the pod."""
    context: str = ""
    """Name of the context; empty in a cluster."""
    ca_data: bytes | None = None
    """PEM of the trusted certificate authorities. Without it and `ca_file`: those of the system."""
    ca_file: str | None = None
    insecure: bool = False
    """Accept any server certificate."""
    tls_server_name: str | None = None
    """Name to expect in the server certificate, if it is not the host of `server`."""
    proxy_url: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    """Read at least once a minute and after a 401. Takes precedence over `token`."""
    client_cert_data: bytes | None = None
    client_cert_file: str | None = None
    client_key_data: bytes | None = field(default=None, repr=False)
    client_key_file: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    impersonate_user: str | None = None
    impersonate_groups: tuple[str, ...] = ()
    external: "ExternalCredentials | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalCredentials:
    """A user entry with an exec plugin or an auth provider, which the `kubernetes` package runs."""

    kubeconfig: tuple[str, ...]
    context: str
    folder: str
    """Folder of the kubeconfig; relative commands start here."""
    plugin: dict[str, Any] | None = field(default=None, repr=False)
    """The `exec` entry; None for an auth provider, which reads and writes the files itself."""
    cluster: dict[str, Any] = field(default_factory=dict)
    """Cluster information for a plugin with `provideClusterInfo`."""


def load_config(kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None) -> ClusterConfig:
    """The first of: the given file, $KUBECONFIG (a list of files, merged), the pod's service account, ~/.kube/config.

    Raises ConfigurationError that names the file and the entry that is missing or wrong; NoClusterError, which is one,
    where nothing is configured.
    """
    if kubeconfig is not None:
        return load_kubeconfig([Path(kubeconfig)], context)
    if listed := os.environ.get("KUBECONFIG"):
        paths = [Path(part) for part in listed.split(os.pathsep) if part]
        present = [path for path in paths if path.exists()]
        if not present:
            raise ConfigurationError(f"KUBECONFIG={listed}: none of these files exists")
        return load_kubeconfig(present, context)
    if "KUBERNETES_SERVICE_HOST" in os.environ and (SERVICE_ACCOUNT / "token").exists():
        return in_cluster()
    home = Path.home() / ".kube" / "config"
    if home.exists():
        return load_kubeconfig([home], context)
    raise NoClusterError(
        "no cluster is configured: use --kubeconfig, set KUBECONFIG, or run in a pod with a service account"
    )


def in_cluster(account: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """The cluster of this pod, with the credentials of its service account."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigurationError(
            "KUBERNETES_SERVICE_HOST is not set: this process is not in a pod with a service account"
        )
    namespace = account / "namespace"
    return ClusterConfig(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca_file=str(account / "ca.crt"),
        token_file=str(account / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def is_in_cluster(config: ClusterConfig, account: Path = SERVICE_ACCOUNT) -> bool:
    """Whether this process is a pod of the cluster in the configuration."""
    return config.token_file == str(account / "token")


def load_kubeconfig(paths: list[Path], context: str | None = None) -> ClusterConfig:
    """One context of one or more kubeconfig files. Of entries with the same name the first one counts."""
    merged = _merge(paths)
    where = os.pathsep.join(str(path) for path in paths)
    chosen = context or merged["current-context"]
    if not chosen:
        defined = ", ".join(sorted(merged["contexts"]))
        advice = f"; use one of {defined}" if defined else ", and no context is defined"
        raise ConfigurationError(f"{where}: current-context is not set{advice}")
    ctx = _entry(merged, "contexts", chosen, where)
    cluster = _entry(merged, "clusters", ctx.get("cluster", ""), where)
    user = _entry(merged, "users", ctx["user"], where) if ctx.get("user") else {}
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("http://", "https://")):
        raise ConfigurationError(f"{where}: cluster {ctx.get('cluster')!r} has no server URL")
    return ClusterConfig(
        server=server.rstrip("/"),
        namespace=ctx.get("namespace") or "default",
        context=chosen,
        ca_data=_decoded(cluster, "certificate-authority-data", where),
        ca_file=_path(cluster, "certificate-authority"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=cluster.get("tls-server-name"),
        proxy_url=cluster.get("proxy-url"),
        token=user.get("token"),
        token_file=_path(user, "tokenFile"),
        client_cert_data=_decoded(user, "client-certificate-data", where),
        client_cert_file=_path(user, "client-certificate"),
        client_key_data=_decoded(user, "client-key-data", where),
        client_key_file=_path(user, "client-key"),
        username=user.get("username"),
        password=user.get("password"),
        impersonate_user=user.get("as"),
        impersonate_groups=tuple(user.get("as-groups") or ()),
        external=_external(user, cluster, paths, chosen),
    )


def _external(
    user: dict[str, Any], cluster: dict[str, Any], paths: list[Path], context: str
) -> ExternalCredentials | None:
    plugin = user.get("exec")
    if plugin and (user.get("token") or user.get("tokenFile")):
        return None  # as in kubectl, a given token takes precedence
    if not plugin and not user.get("auth-provider"):
        return None
    known = {key: value for key, value in cluster.items() if key not in ("\0dir", "certificate-authority")}
    authority = _path(cluster, "certificate-authority")
    if authority and plugin and plugin.get("provideClusterInfo"):
        try:
            known.setdefault("certificate-authority-data", base64.b64encode(Path(authority).read_bytes()).decode())
        except OSError as error:
            raise ConfigurationError(f"certificate-authority {authority}: {error.strerror or error}") from error
    return ExternalCredentials(
        kubeconfig=tuple(str(path) for path in paths),
        context=context,
        folder=str(user["\0dir"]),
        plugin=plugin or None,
        cluster=known,
    )


def _merge(paths: list[Path]) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - saves 70 ms for a process in a cluster

    merged: dict[str, Any] = {"clusters": {}, "contexts": {}, "users": {}, "current-context": None}
    for path in paths:
        try:
            document = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}  # noqa: S506 - both are safe loaders
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror or error}") from error
        except yaml.YAMLError as error:
            raise ConfigurationError(f"{path}: invalid YAML: {error}") from error
        if not isinstance(document, dict):
            raise ConfigurationError(f"{path}: not a kubeconfig: the document must be a mapping")
        merged["current-context"] = merged["current-context"] or document.get("current-context")
        for section in ("clusters", "contexts", "users"):
            for item in document.get(section) or ():
                body = dict(item.get(section[:-1]) or {})
                body["\0dir"] = path.resolve().parent  # relative file names are relative to the file that holds them
                merged[section].setdefault(item.get("name"), body)
    return merged


def _entry(merged: dict[str, Any], section: str, name: str, where: str) -> dict[str, Any]:
    try:
        entry: dict[str, Any] = merged[section][name]
    except KeyError:
        known = ", ".join(sorted(map(str, merged[section]))) or "none"
        raise ConfigurationError(f"{where}: {section[:-1]} {name!r} is not defined (defined: {known})") from None
    return entry


def _decoded(entry: dict[str, Any], field_name: str, where: str) -> bytes | None:
    value = entry.get(field_name)
    if not value:
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise ConfigurationError(f"{where}: {field_name} is not valid base64: {error}") from error


def _path(entry: dict[str, Any], field_name: str) -> str | None:
    value = entry.get(field_name)
    return str(entry["\0dir"] / value) if value else None
