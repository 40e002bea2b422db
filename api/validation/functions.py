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

from trainwright.api.quantity import Quantity
from trainwright.api.validation import formats, names
from trainwright.api.validation.celnetwork import (
    CIDR,
    IP,
    Boxed,
    address,
    cidr,
    contains_cidr,
    contains_ip,
    content,
    interface,
    ip,
    is_global,
    is_link_local,
    of_address,
    url,
    url_part,
)
from trainwright.api.validation.patterns import compiled

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


def _is(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
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


def _is_integer(value: Boxed) -> bool:
    whole, rest = divmod(_nanos(value), _NANO)
    return rest == 0 and -(2**63) <= whole < 2**63


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


_UNITS = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "ms": 1e-3, "mi": 60, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def _span(text: str) -> timedelta:
    seconds = 0.0
    for number, unit in re.findall(r"([0-9.]+)\s*([A-Za-zµ]+)", text):
        scale = _UNITS["ms"] if unit.lower().startswith("milli") else _UNITS.get(unit[:2], _UNITS.get(unit[0], 0.0))
        seconds += float(number) * scale
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)


def declarations(kinds: Any) -> list[tuple[str, str, Any, list[Any], bool, Callable[..., Any]]]:
    """Name, overload, result, parameters, whether it is a method, and implementation of each function.

    `kinds`: `cel.Type` of the evaluator.
    """
    text, number, truth, anything = kinds.STRING, kinds.INT, kinds.BOOL, kinds.DYN
    box, items = kinds.Map(kinds.STRING, kinds.DYN), kinds.List(kinds.DYN)
    texts = kinds.List(kinds.STRING)
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
        ("kubernetes.span", kinds.DURATION, [text], _span),
    ]
    methods: list[tuple[str, Any, list[Any], Callable[..., Any]]] = [
        ("isGreaterThan", truth, [box, box], lambda left, right: _compare(left, right) > 0),
        ("isLessThan", truth, [box, box], lambda left, right: _compare(left, right) < 0),
        ("compareTo", number, [box, box], _compare),
        ("asApproximateFloat", kinds.DOUBLE, [box], lambda value: _nanos(value) / _NANO),
        ("asInteger", number, [box], _as_integer),
        ("isInteger", truth, [box], _is_integer),
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
        ("isSorted", truth, [items], lambda values: all(left <= right for left, right in itertools.pairwise(values))),
        ("sum", anything, [items], _sum),
        ("min", anything, [items], _extreme("min", min)),
        ("max", anything, [items], _extreme("max", max)),
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
