# SPDX-License-Identifier: Apache-2.0
"""Decides what is renewed and when: a pure function from state, hosts and time to the next state.

An authority is replaced in three steps with `overlap` between them. It is announced (trusted, does not sign), then it
signs (the old one is still trusted), then the old one is removed. So at any time the certificate of every replica is
signed by an authority that every API server has had time to learn. Each step is one write of the Secret, and any
replica can take it.

Clients that load the trusted authorities once, as training does at its start, learn of none of this. For them the new
authority is also signed by the old one, and served so until the old one expires.

A Secret that is deleted or damaged while replicas run is handled in the same way: the served certificate is stored
again, and its successor is announced. Only a replica without a certificate creates an authority that API servers do not
trust yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509

from trainwright.controller.runtime.certificates.authority import (
    KeyPair,
    covers,
    cross_sign,
    issue_certificate,
    make_authority,
    signed_by,
)
from trainwright.controller.runtime.certificates.material import CertificateMaterial
from trainwright.controller.runtime.errors import ConfigurationError

LONGEST_CHAIN = 8
"""Links of the chain that is served: clients of before so many replacements of the authority fail."""

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationPolicy:
    """Lifetimes. Raises ConfigurationError if they do not fit together."""

    authority_name: str = "webhook-ca"
    authority_lifetime: timedelta = 3650 * _DAY
    authority_renewal: timedelta = 90 * _DAY
    """Time before its expiry at which an authority is replaced."""
    lifetime: timedelta = 365 * _DAY
    renewal: timedelta = 90 * _DAY
    """Time before its expiry at which a server certificate is replaced."""
    overlap: timedelta = timedelta(minutes=10)
    """Time between the steps of replacing an authority; API servers see a new bundle within seconds."""

    def __post_init__(self) -> None:
        if self.renewal >= self.lifetime or self.authority_renewal >= self.authority_lifetime:
            raise ConfigurationError("certificates: the renewal must be shorter than the lifetime")
        if 2 * self.overlap > self.authority_renewal:
            raise ConfigurationError("certificates: twice the overlap must not exceed the renewal of the authority")


@dataclass(frozen=True, slots=True)
class RotationStep:
    """A change of the state, with the reason."""

    material: CertificateMaterial
    why: str


def next_step(
    material: CertificateMaterial | str,
    policy: RotationPolicy,
    hosts: Sequence[str],
    now: datetime,
    *,
    last: CertificateMaterial | None = None,
) -> RotationStep | None:
    """The step that is due; None if none is.

    `material` can be the reason why there is no usable state; `last` is then the last state that this replica saw.
    """
    if isinstance(material, str):
        if last is not None and _serves(last, hosts, now):
            announced = last.upcoming or _new_authority(policy, now)
            return RotationStep(
                replace(last, upcoming=announced),
                f"{material}; stored the served certificate again and announced a new authority",
            )
        return RotationStep(
            made_for_process(policy, hosts, now),
            f"made a new authority, because there was no usable certificate: {material}",
        )
    return (
        _authority_step(material, policy, hosts, now)
        or _server_step(material, policy, hosts, now)
        or _forget_step(material, policy, now)
    )


def _authority_step(
    material: CertificateMaterial, policy: RotationPolicy, hosts: Sequence[str], now: datetime
) -> RotationStep | None:
    signing, upcoming = material.signing.certificate, material.upcoming
    expired = signing.not_valid_after_utc <= now
    if upcoming is None and expired:
        return RotationStep(made_for_process(policy, hosts, now), "replaced the authority, because it had expired")
    if upcoming is not None and (expired or now >= upcoming.made + policy.overlap):
        leaf = issue_certificate(upcoming, hosts, now=now, lifetime=policy.lifetime)
        former = (signing, *_alive(material.former, now))
        chain = () if expired else (cross_sign(material.signing, upcoming.certificate, now=now), *material.chain)
        return RotationStep(
            CertificateMaterial(signing=upcoming, leaf=leaf, former=former, chain=_alive(chain, now)[:LONGEST_CHAIN]),
            "the announced authority signs from now on",
        )
    if upcoming is None and now >= signing.not_valid_after_utc - policy.authority_renewal:
        announced = _new_authority(policy, now)
        return RotationStep(
            replace(material, upcoming=announced), "the authority expires soon; announced its successor"
        )
    return None


def _server_step(
    material: CertificateMaterial, policy: RotationPolicy, hosts: Sequence[str], now: datetime
) -> RotationStep | None:
    why = _leaf_is_due(material, policy, hosts, now)
    if not why:
        return None
    leaf = issue_certificate(material.signing, hosts, now=now, lifetime=policy.lifetime)
    return RotationStep(replace(material, leaf=leaf), why)


def _forget_step(material: CertificateMaterial, policy: RotationPolicy, now: datetime) -> RotationStep | None:
    kept = _alive(material.former, now) if now < material.leaf.made + policy.overlap else ()
    chain = _alive(material.chain, now)
    if kept == material.former and chain == material.chain:
        return None
    return RotationStep(replace(material, former=kept, chain=chain), "removed an authority that no longer signs")


def next_due(material: CertificateMaterial, policy: RotationPolicy) -> datetime:
    """When a step can be due next, if nothing else changes."""
    if material.upcoming is not None:
        times = [material.upcoming.made + policy.overlap]
    else:
        times = [material.signing.certificate.not_valid_after_utc - policy.authority_renewal]
    if _outlived(material):
        times.append(material.leaf.certificate.not_valid_after_utc - policy.renewal)
    if material.former:
        times.append(material.leaf.made + policy.overlap)
    times += [certificate.not_valid_after_utc for certificate in material.chain]
    return min(times)


def made_for_process(policy: RotationPolicy, hosts: Sequence[str], now: datetime) -> CertificateMaterial:
    """A new authority and a server certificate that it signed."""
    authority = _new_authority(policy, now)
    return CertificateMaterial(
        signing=authority, leaf=issue_certificate(authority, hosts, now=now, lifetime=policy.lifetime)
    )


def _new_authority(policy: RotationPolicy, now: datetime) -> KeyPair:
    return make_authority(policy.authority_name, now=now, lifetime=policy.authority_lifetime)


def _serves(material: CertificateMaterial, hosts: Sequence[str], now: datetime) -> bool:
    """Whether the API server accepts the server certificate now."""
    ends = material.leaf.certificate.not_valid_after_utc, material.signing.certificate.not_valid_after_utc
    return now < min(ends) and covers(material.leaf.certificate, hosts)


def _leaf_is_due(material: CertificateMaterial, policy: RotationPolicy, hosts: Sequence[str], now: datetime) -> str:
    leaf = material.leaf.certificate
    if not covers(leaf, hosts):
        return f"renewed the server certificate, because it was not valid for {', '.join(hosts)}"
    if not signed_by(leaf, material.signing.certificate):
        return "renewed the server certificate, because the authority had not signed it"
    if _outlived(material) and now >= leaf.not_valid_after_utc - policy.renewal:
        return "renewed the server certificate, because it expires soon"
    return ""


def _outlived(material: CertificateMaterial) -> bool:
    """Whether a new server certificate would last longer; one that expires with its authority waits for the next."""
    return material.leaf.certificate.not_valid_after_utc < material.signing.certificate.not_valid_after_utc


def _alive(certificates: tuple[x509.Certificate, ...], now: datetime) -> tuple[x509.Certificate, ...]:
    return tuple(certificate for certificate in certificates if certificate.not_valid_after_utc > now)
