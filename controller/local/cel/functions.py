# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own CEL functions, for cel-expr-python: quantities, addresses, URLs, versions, lists, formats.

The evaluator takes no types of ours, so a value such as a quantity is a map with one key that names its type; equal
values are equal maps. `format.….validate` gives a map that stands for an optional, with the same functions.

Reference: https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-list-library and the sections after it.
"""

import ipaddress
import itertools
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from trainwright.api import names
from trainwright.api.quantity import Quantity
from trainwright.controller.local.types import formats
from trainwright.controller.local.types.go_json import nanoseconds
from trainwright.controller.local.types.patterns import compiled

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
    found = ipaddress.ip_address(text)
    if "%" in text:
        raise ValueError(f'IP address "{text}" with zone value is not allowed')
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return found


def cidr(text: str) -> Boxed:
    """A network with the address that it was written with. Raises ValueError."""
    if not re.fullmatch(r"[^%]+/(0|[1-9][0-9]*)", text):
        raise ValueError(f'"{text}" is not a network such as 10.0.0.0/8')
    return {CIDR: str(ipaddress.ip_interface(text))}


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


_QUANTITY, _SEMVER = "kubernetes.Quantity", "kubernetes.Semver"
_FORMAT, _OPTIONAL = "kubernetes.NamedFormat", "optional"
_NANO = 10**9
_NOT_A_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMBER = r"(0|[1-9][0-9]*)"
_SEMVER_TEXT = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?")


def _quantity(text: str) -> Boxed:
    try:
        # As text, because the evaluator has integers of 64 bits.
        return {_QUANTITY: str(Quantity.parse(text).nanos)}
    except ValueError as error:
        raise ValueError(_NOT_A_QUANTITY) from error


def _is(read: Callable[[Any], Any]) -> Callable[[Any], bool]:
    """Whether something can be read without a ValueError."""

    def check(value: Any) -> bool:
        try:
            read(value)
        except ValueError:
            return False
        return True

    return check


def _nanos(value: Boxed) -> int:
    return int(content(value, _QUANTITY))


def _as_integer(value: Boxed) -> int:
    whole, rest = divmod(_nanos(value), _NANO)
    if rest or not -(2**63) <= whole < 2**63:
        raise ValueError("cannot convert value to integer")
    return whole


def _add(left: Boxed, right: Boxed | int) -> Boxed:
    more = right * _NANO if isinstance(right, int) else _nanos(right)
    return {_QUANTITY: str(_nanos(left) + more)}


def _subtract(left: Boxed, right: Boxed | int) -> Boxed:
    return _add(left, -right if isinstance(right, int) else {_QUANTITY: str(-_nanos(right))})


def _compare(left: Boxed, right: Boxed) -> int:
    if _SEMVER in left:
        one, other = _precedence(content(left, _SEMVER)), _precedence(content(right, _SEMVER))
    else:
        one, other = (_nanos(left),), (_nanos(right),)
    return (one > other) - (one < other)


def _semver(text: str, normalize: bool = False) -> Boxed:
    if normalize:
        core, separator, rest = re.fullmatch(r"([^-+]*)([-+]?)(.*)", text.removeprefix("v"), re.DOTALL).groups()  # type: ignore[union-attr]
        numbers = [re.sub(r"^0+(?=[0-9])", "", number) for number in core.split(".")]
        text = ".".join(([*numbers, "0", "0"])[: max(3, len(numbers))]) + separator + rest
    if _SEMVER_TEXT.fullmatch(text) is None:
        raise ValueError("No Major.Minor.Patch elements found" if text.count(".") < 2 else "Invalid Semantic Version")
    return {_SEMVER: text}


def _precedence(text: str) -> tuple[Any, ...]:
    found = _SEMVER_TEXT.fullmatch(text)
    assert found is not None
    numbers = tuple(int(found[group]) for group in (1, 2, 3))
    if not found[4]:
        return (*numbers, 1, ())
    parts = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in found[4].split("."))
    return (*numbers, 0, parts)


def _number_of(place: int) -> Callable[[Boxed], int]:
    return lambda value: int(_precedence(content(value, _SEMVER))[place])


def _is_sorted(items: list[Any]) -> bool:
    return all(left <= right for left, right in itertools.pairwise(items))


def _sum(items: list[Any]) -> Any:
    return sum(items[1:], items[0]) if items else 0


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def check(items: list[Any]) -> Any:
        if not items:
            raise ValueError(f"{name} called on empty list")
        return choose(items)

    return check


def _same(left: Any, right: Any) -> bool:
    return bool(left == right and isinstance(left, bool) == isinstance(right, bool))


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((index for index, item in enumerate(items) if _same(item, wanted)), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    return next((index for index in reversed(range(len(items))) if _same(items[index], wanted)), -1)


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = compiled(pattern).find(text)
    return list(found if limit < 0 else itertools.islice(found, limit))


def _unless(check: Callable[[str], bool], text: str) -> names.NameRule:
    return lambda value: [] if check(value) else [text]


_NAMED: dict[str, names.NameRule] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_label_1035,
    "qualifiedName": names.qualified,
    "dns1123LabelPrefix": names.as_prefix(names.dns_label),
    "dns1123SubdomainPrefix": names.as_prefix(names.dns_subdomain),
    "dns1035LabelPrefix": names.as_prefix(names.dns_label_1035),
    "labelValue": names.label_value,
    "uri": _unless(formats.is_uri, "invalid URI for request"),
    "uuid": _unless(formats.CHECKS["uuid"], "does not match the UUID format"),
    "byte": _unless(formats.CHECKS["byte"], "invalid base64"),
    "date": _unless(formats.is_date, "invalid date"),
    "datetime": _unless(formats.is_date_time, "invalid datetime"),
}


def _some(value: Any) -> Boxed:
    return {_OPTIONAL: [value]}


def _validate(form: Boxed, text: str) -> Boxed:
    found = _NAMED[content(form, _FORMAT)](text)
    return _some(found) if found else {_OPTIONAL: []}


def _named_format(name: str) -> Boxed:
    return _some({_FORMAT: name}) if name in _NAMED else {_OPTIONAL: []}


def _value(optional: Boxed) -> Any:
    found = content(optional, _OPTIONAL)
    if not found:
        raise ValueError("optional.none() dereference")
    return found[0]


def declarations(kinds: Any, *, typed: bool) -> list[tuple[str, str, Any, list[Any], bool, Callable[..., Any]]]:
    """Name, overload, result, parameters, whether it is a method, and implementation of each function.

    `kinds`: `cel.Type` of the evaluator. `typed`: functions of lists have an overload for each type of items,
    to check types; the evaluator takes only one.
    """
    text, number, truth, anything = kinds.STRING, kinds.INT, kinds.BOOL, kinds.DYN
    box, items = kinds.Map(kinds.STRING, kinds.DYN), kinds.List(kinds.DYN)
    texts = kinds.List(kinds.STRING)
    summed = (number, kinds.UINT, kinds.DOUBLE, kinds.DURATION) if typed else (anything,)
    ordered = (*summed, truth, kinds.TIMESTAMP, text, kinds.BYTES) if typed else summed
    functions: list[tuple[str, Any, list[Any], Callable[..., Any]]] = [
        ("quantity", box, [text], _quantity),
        ("isQuantity", truth, [text], _is(_quantity)),
        ("sign", number, [box], lambda value: (_nanos(value) > 0) - (_nanos(value) < 0)),
        ("ip", box, [text], ip),
        ("isIP", truth, [text], _is(ip)),
        ("ip.isCanonical", truth, [text], lambda value: str(address(value)) == value),
        ("cidr", box, [text], cidr),
        ("isCIDR", truth, [text], _is(cidr)),
        ("url", box, [text], url),
        ("isURL", truth, [text], formats.is_uri),
        ("semver", box, [text], _semver),
        ("semver", box, [text, truth], _semver),
        ("isSemver", truth, [text], _is(_semver)),
        ("isSemver", truth, [text, truth], lambda value, normalize: _is(lambda it: _semver(it, normalize))(value)),
        ("string", text, [box], lambda value: str(content(value, IP, CIDR))),
        ("format.named", box, [text], _named_format),
        *((f"format.{name}", box, [], lambda name=name: {_FORMAT: name}) for name in _NAMED),
        ("kubernetes.moment", kinds.TIMESTAMP, [text], lambda value: datetime.fromisoformat(value.upper())),
        ("kubernetes.day", kinds.TIMESTAMP, [text], lambda value: datetime.fromisoformat(f"{value}T00:00:00+00:00")),
        ("kubernetes.span", kinds.DURATION, [text], lambda value: timedelta(microseconds=nanoseconds(value) / 1000)),
    ]
    methods: list[tuple[str, Any, list[Any], Callable[..., Any]]] = [
        ("isGreaterThan", truth, [box, box], lambda left, right: _compare(left, right) > 0),
        ("isLessThan", truth, [box, box], lambda left, right: _compare(left, right) < 0),
        ("compareTo", number, [box, box], _compare),
        ("asApproximateFloat", kinds.DOUBLE, [box], lambda value: _nanos(value) / _NANO),
        ("asInteger", number, [box], _as_integer),
        ("isInteger", truth, [box], _is(_as_integer)),
        ("add", box, [box, box], _add),
        ("add", box, [box, number], _add),
        ("sub", box, [box, box], _subtract),
        ("sub", box, [box, number], _subtract),
        ("family", number, [box], lambda value: ipaddress.ip_address(content(value, IP)).version),
        ("isUnspecified", truth, [box], of_address("is_unspecified")),
        ("isLoopback", truth, [box], of_address("is_loopback")),
        ("isLinkLocalMulticast", truth, [box], lambda value: is_link_local(value, multicast=True)),
        ("isLinkLocalUnicast", truth, [box], lambda value: is_link_local(value, multicast=False)),
        ("isGlobalUnicast", truth, [box], is_global),
        ("containsIP", truth, [box, text], contains_ip),
        ("containsIP", truth, [box, box], contains_ip),
        ("containsCIDR", truth, [box, text], contains_cidr),
        ("containsCIDR", truth, [box, box], contains_cidr),
        ("ip", box, [box], lambda value: {IP: str(interface(value).ip)}),
        ("masked", box, [box], lambda value: {CIDR: str(interface(value).network)}),
        ("prefixLength", number, [box], lambda value: interface(value).network.prefixlen),
        ("getScheme", text, [box], url_part("scheme")),
        ("getHost", text, [box], url_part("host")),
        ("getHostname", text, [box], url_part("hostname")),
        ("getPort", text, [box], url_part("port")),
        ("getEscapedPath", text, [box], url_part("path")),
        ("getQuery", kinds.Map(text, texts), [box], url_part("query")),
        ("major", number, [box], _number_of(0)),
        ("minor", number, [box], _number_of(1)),
        ("patch", number, [box], _number_of(2)),
        *(("isSorted", truth, [kinds.List(one)], _is_sorted) for one in ordered),
        *(("sum", one, [kinds.List(one)], _sum) for one in summed),
        *(("min", one, [kinds.List(one)], _extreme("min", min)) for one in ordered),
        *(("max", one, [kinds.List(one)], _extreme("max", max)) for one in ordered),
        ("indexOf", number, [items, anything], _index_of),
        ("lastIndexOf", number, [items, anything], _last_index_of),
        ("find", text, [text, text], lambda value, pattern: next(compiled(pattern).find(value), "")),
        ("findAll", texts, [text, text], _find_all),
        ("findAll", texts, [text, text, number], _find_all),
        ("validate", box, [box, text], _validate),
        ("hasValue", truth, [box], lambda value: bool(content(value, _OPTIONAL))),
        ("value", anything, [box], _value),
    ]
    made = [(name, result, parameters, False, call) for name, result, parameters, call in functions]
    made += [(name, result, parameters, True, call) for name, result, parameters, call in methods]
    return [(one[0], f"kubernetes_{index}", *one[1:]) for index, one in enumerate(made)]
