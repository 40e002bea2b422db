# SPDX-License-Identifier: Apache-2.0
"""Addresses and URLs of Kubernetes' CEL library.

Reference: https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-ip-address-library.
"""

import ipaddress
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from trainwright.api.validation import formats

Boxed = dict[str, Any]
"""A value of a type of Kubernetes: one key, the name of the type."""

IP, CIDR, URL = "net.IP", "net.CIDR", "kubernetes.URL"
"""Names of types."""


def content(value: Boxed, *kinds: str) -> Any:
    """What is in a value of one of some types. Raises TypeError for a value of another."""
    for kind in kinds:
        if kind in value:
            return value[kind]
    raise TypeError("no such overload")


def ip(text: str) -> Boxed:
    """An address. Raises ValueError."""
    return {IP: str(address(text))}


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Read an address without zone, not of IPv4 written as IPv6. Raises ValueError."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError as error:
        wrong = f'ParseAddr("{text}"): unable to parse IP'
        raise ValueError(f'IP Address "{text}" parse error during conversion from string: {wrong}') from error
    if "%" in text:
        raise ValueError(f'IP address "{text}" with zone value is not allowed')
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return found


def cidr(text: str) -> Boxed:
    """A network with the address that it was written with. Raises ValueError."""
    host, slash, bits = text.rpartition("/")
    if not slash:
        wrong = "no '/'"
    elif not re.fullmatch("0|[1-9][0-9]*", bits):
        wrong = f'bad bits after slash: "{bits}"'
    else:
        try:
            if "%" in host:
                raise ValueError(host)
            return {CIDR: str(ipaddress.ip_interface(text))}
        except ipaddress.NetmaskValueError:
            wrong = "prefix length out of range"
        except ValueError:
            wrong = f'ParseAddr("{host}"): unable to parse IP'
    twice = "network address parse error during conversion from string: " * 2
    raise ValueError(f'{twice}netip.ParsePrefix("{text}"): {wrong}')


def interface(value: Boxed) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    """A network as Python has it."""
    return ipaddress.ip_interface(content(value, CIDR))


def contains_ip(network: Boxed, other: str | Boxed) -> bool:
    found = address(other) if isinstance(other, str) else ipaddress.ip_address(content(other, IP))
    return found in interface(network).network


def contains_cidr(network: Boxed, other: str | Boxed) -> bool:
    inner = interface(cidr(other) if isinstance(other, str) else other).network
    outer = interface(network).network
    return inner.version == outer.version and inner.overlaps(outer) and outer.prefixlen <= inner.prefixlen


def of_address(name: str) -> Callable[[Boxed], bool]:
    """Reads a property of an address."""
    return lambda value: bool(getattr(ipaddress.ip_address(content(value, IP)), name))


def is_link_local(value: Boxed, *, multicast: bool) -> bool:
    """Whether an address is for one link only."""
    found = ipaddress.ip_address(content(value, IP))
    if not multicast:
        return found.is_link_local
    network = "224.0.0.0/24" if found.version == 4 else "ff02::/16"
    return found in ipaddress.ip_network(network)


def is_global(value: Boxed) -> bool:
    """What Go calls global: everything that is not special, private addresses too."""
    found = ipaddress.ip_address(content(value, IP))
    special = found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local
    return not special and str(found) != "255.255.255.255"


def url(text: str) -> Boxed:
    """A URL. Raises ValueError."""
    if not formats.is_uri(text):
        raise ValueError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    return {URL: text}


def url_part(part: str) -> Callable[[Boxed], Any]:
    def read(value: Boxed) -> Any:
        parts = urlsplit(content(value, URL))
        host = parts.netloc.rpartition("@")[2]
        match part:
            case "host":
                return host
            case "hostname":
                return re.sub(r":[0-9]*$", "", host).strip("[]")
            case "port":
                found = re.search(r":([0-9]+)$", host)
                return found[1] if found else ""
            case "path":
                return quote(parts.path, safe="/%:@!$&'()*+,;=~-._")
            case "query":
                return parse_qs(parts.query, keep_blank_values=True)
            case _:
                return parts.scheme

    return read
