# SPDX-License-Identifier: Apache-2.0
"""When what is renewed: a pure function from the state, the hosts and the time to the next state.

An authority is replaced in three steps, with `overlap` between them: it is announced (trusted, does not sign), it signs
(the old one is still trusted), the old one is forgotten. So at every moment every replica's certificate, old or new, is
signed by somebody whom every API server has had time to learn of. Each step is one write of the Secret, and any replica
may take it.

A Secret that is deleted or damaged while replicas run is such a replacement too: what they serve is stored once more,
and its successor is announced. Only who has nothing to serve starts with an authority that nobody has learned of.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509

from trainwright.controller.runtime.certificates.authority import Pair, covers, issue, make_authority, signed_by
from trainwright.controller.runtime.certificates.material import Material
from trainwright.controller.runtime.errors import ConfigurationError

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How long things live. Raises ConfigurationError for what could not work."""

    authority_name: str = "webhook-ca"
    authority_lifetime: timedelta = 3650 * _DAY
    authority_renewal: timedelta = 90 * _DAY
    """How long before its end an authority is replaced."""
    lifetime: timedelta = 365 * _DAY
    renewal: timedelta = 90 * _DAY
    """How long before its end a server certificate is replaced."""
    overlap: timedelta = timedelta(minutes=10)
    """Between the steps of replacing an authority; API servers learn of a new bundle within seconds."""

    def __post_init__(self) -> None:
        if self.renewal >= self.lifetime or self.authority_renewal >= self.authority_lifetime:
            raise ConfigurationError("certificates: the renewal must be shorter than the lifetime")
        if 2 * self.overlap > self.authority_renewal:
            raise ConfigurationError("certificates: the overlap must fit twice into the renewal of the authority")


@dataclass(frozen=True, slots=True)
class Step:
    """A change of the state, and why."""

    material: Material
    why: str


def next_step(
    material: Material | str, policy: Policy, hosts: Sequence[str], now: datetime, *, last: Material | None = None
) -> Step | None:
    """The change that is due, None if there is none.

    `material` may be the reason why there is no usable state; `last` is then what this replica knew before.
    """
    if isinstance(material, str):
        if last is not None and _serves(last, hosts, now):
            announced = last.upcoming or _new_authority(policy, now)
            return Step(replace(last, upcoming=announced), f"{material}; what is served goes on until it is replaced")
        return Step(_fresh(policy, hosts, now), f"there was no usable certificate: {material}")
    return (
        _authority_step(material, policy, hosts, now)
        or _server_step(material, policy, hosts, now)
        or _forget_step(material, policy, now)
    )


def _authority_step(material: Material, policy: Policy, hosts: Sequence[str], now: datetime) -> Step | None:
    signing, upcoming = material.signing.certificate, material.upcoming
    expired = signing.not_valid_after_utc <= now
    if upcoming is None and expired:
        return Step(_fresh(policy, hosts, now), "the authority has expired")
    if upcoming is not None and (expired or now >= upcoming.made + policy.overlap):
        leaf = issue(upcoming, hosts, now=now, lifetime=policy.lifetime)
        former = (signing, *_alive(material.former, now))
        return Step(Material(signing=upcoming, leaf=leaf, former=former), "the announced authority signs now")
    if upcoming is None and now >= signing.not_valid_after_utc - policy.authority_renewal:
        announced = _new_authority(policy, now)
        return Step(replace(material, upcoming=announced), "the authority ends soon, its successor is announced")
    return None


def _server_step(material: Material, policy: Policy, hosts: Sequence[str], now: datetime) -> Step | None:
    why = _leaf_is_due(material, policy, hosts, now)
    if not why:
        return None
    leaf = issue(material.signing, hosts, now=now, lifetime=policy.lifetime)
    return Step(replace(material, leaf=leaf), why)


def _forget_step(material: Material, policy: Policy, now: datetime) -> Step | None:
    kept = _alive(material.former, now) if now < material.leaf.made + policy.overlap else ()
    if kept == material.former:
        return None
    return Step(replace(material, former=kept), "an authority that signs no more is forgotten")


def next_due(material: Material, policy: Policy) -> datetime:
    """When `next_step` may have something to do, if nothing is changed from outside."""
    if material.upcoming is not None:
        times = [material.upcoming.made + policy.overlap]
    else:
        times = [material.signing.certificate.not_valid_after_utc - policy.authority_renewal]
    if _outlived(material):
        times.append(material.leaf.certificate.not_valid_after_utc - policy.renewal)
    if material.former:
        times.append(material.leaf.made + policy.overlap)
    return min(times)


def _fresh(policy: Policy, hosts: Sequence[str], now: datetime) -> Material:
    authority = _new_authority(policy, now)
    return Material(signing=authority, leaf=issue(authority, hosts, now=now, lifetime=policy.lifetime))


def _new_authority(policy: Policy, now: datetime) -> Pair:
    return make_authority(policy.authority_name, now=now, lifetime=policy.authority_lifetime)


def _serves(material: Material, hosts: Sequence[str], now: datetime) -> bool:
    """Whether the API server takes the server certificate now."""
    ends = material.leaf.certificate.not_valid_after_utc, material.signing.certificate.not_valid_after_utc
    return now < min(ends) and covers(material.leaf.certificate, hosts)


def _leaf_is_due(material: Material, policy: Policy, hosts: Sequence[str], now: datetime) -> str:
    leaf = material.leaf.certificate
    if not covers(leaf, hosts):
        return f"the certificate is not for {', '.join(hosts)}"
    if not signed_by(leaf, material.signing.certificate):
        return "the certificate is not signed by the authority"
    if _outlived(material) and now >= leaf.not_valid_after_utc - policy.renewal:
        return "the certificate ends soon"
    return ""


def _outlived(material: Material) -> bool:
    """Whether a new server certificate could last longer; one that ends with its authority waits for the next."""
    return material.leaf.certificate.not_valid_after_utc < material.signing.certificate.not_valid_after_utc


def _alive(certificates: tuple[x509.Certificate, ...], now: datetime) -> tuple[x509.Certificate, ...]:
    return tuple(certificate for certificate in certificates if certificate.not_valid_after_utc > now)
