# SPDX-License-Identifier: Apache-2.0
"""Root folders made of Debian packages: a plain one, the base of images, and the node's with containerd and podman."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from hack.node.spaces import NodeError, cache, output_of, step, workshop

SUITE = "trixie"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
NODE_PACKAGES = (
    *("busybox-static", "kmod", "mount", "procps", "util-linux"),
    *("conntrack", "iproute2", "iptables", "nftables"),
    *("containerd", "containernetworking-plugins", "podman", "runc"),
)


def base(suite: str = SUITE) -> Path:
    """A minimal Debian."""
    folder = cache() / f"debian-{suite}"
    if folder.is_dir():
        return folder
    with step(f"debootstrap: a minimal Debian {suite}"):
        made = _fresh(folder)
        with tempfile.TemporaryDirectory(dir=cache()) as scratch:
            program, settings = _debootstrap(Path(scratch))
            # In a mount namespace, so that what it mounts is gone when it ends in any way.
            output_of(
                [
                    *("unshare", "--mount", "--propagation", "private"),
                    *(program, "--variant=minbase", "--include=ca-certificates", f"--keyring={_KEYRING}"),
                    *(suite, str(made), mirror()),
                ],
                env={**os.environ, **settings},
            )
        # Packages of Python come from where this machine gets them, maybe through a proxy with an authority of its own.
        shutil.copyfile(_CERTIFICATES, made / _CERTIFICATES.relative_to("/"))
        # No service starts.
        policy = made / "usr" / "sbin" / "policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        # Downloaded packages and lists stay outside.
        (made / "etc" / "apt" / "apt.conf.d" / "90clean").write_text(
            'APT::Install-Recommends "false";\nDPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb || true"; };\n'
            'Dir::Cache::pkgcache "";\nDir::Cache::srcpkgcache "";\n'
        )
        for downloaded in (made / "var" / "cache" / "apt" / "archives").glob("*.deb"):
            downloaded.unlink()
        made.rename(folder)
    return folder


def node_folder() -> Path:
    """The root folder of nodes and workshops; may not exist yet."""
    key = hashlib.sha256(" ".join(sorted(NODE_PACKAGES)).encode()).hexdigest()[:8]
    return cache() / f"root-{SUITE}-{key}"


def node() -> Path:
    """That folder; made if it is missing."""
    folder = node_folder()
    if folder.is_dir():
        return folder
    plain = base()
    with step("Debian packages of the node: containerd, runc, CNI plugins, podman"):
        made = _fresh(folder)
        output_of(["cp", "--archive", f"{plain}/.", str(made)])
        with workshop(made, writable=True) as (spaces, _):
            for command in (
                ["apt-get", "update", "--quiet"],
                ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", *NODE_PACKAGES],
                ["sh", "-c", "rm -rf /var/lib/apt/lists/* /usr/share/doc/*/* /usr/share/man/*"],
            ):
                spaces.run(*command, variables={"DEBIAN_FRONTEND": "noninteractive"})
        made.rename(folder)
    return folder


def mirror() -> str:
    """Where this machine gets its packages from. Raises NodeError if apt does not say."""
    question = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
    told = subprocess.run(question, capture_output=True, text=True, check=False)
    site = next((site for site in told.stdout.split() if re.search(r"/debian/?$", site)), None)
    if site is None:
        raise NodeError("apt names no mirror of Debian: add one to its sources, then run `apt-get update`")
    return site


def _fresh(folder: Path) -> Path:
    cache().mkdir(parents=True, exist_ok=True)
    made = folder.with_name(f"{folder.name}.new")
    if made.exists():
        shutil.rmtree(made)
    made.mkdir()
    return made


def _debootstrap(scratch: Path) -> tuple[str, dict[str, str]]:
    """debootstrap and its variables; unpacked from its package where it is not installed."""
    if not _KEYRING.is_file():
        raise NodeError(f"{_KEYRING} is missing: install the package debian-archive-keyring")
    found = shutil.which("debootstrap")
    if found is not None:
        return found, {}
    done = subprocess.run(
        ["apt-get", "download", "--quiet", "debootstrap"], cwd=scratch, capture_output=True, text=True, check=False
    )
    package = next(scratch.glob("debootstrap_*.deb"), None)
    if package is None:
        raise NodeError(f"apt-get cannot download debootstrap; run apt-get update first\n{done.stderr.strip()}")
    output_of(["dpkg", "--extract", str(package), str(scratch / "unpacked")])
    usr = scratch / "unpacked" / "usr"
    return str(usr / "sbin" / "debootstrap"), {"DEBOOTSTRAP_DIR": str(usr / "share" / "debootstrap")}
