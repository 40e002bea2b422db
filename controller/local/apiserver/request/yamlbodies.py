# SPDX-License-Identifier: Apache-2.0
"""YAML bodies as the API server reads them: the first document counts, and the last of two equal keys.

Field validation tells of keys that are there twice.
"""

from typing import Any

import yaml

from trainwright.api.manifest import ManifestError, check_depth, key, scalar
from trainwright.controller.local.apiserver.merge.apply.values import literal

_MERGE = "tag:yaml.org,2002:merge"
_UNSUSPICIOUS_ALIASED, _UNSUSPICIOUS = 100, 1000
_LOW, _HIGH = 400_000, 4_000_000
"""Values decoded, between which the share of aliased values that is allowed falls from 99 % to 10 %."""


class YAMLBodyError(ValueError):
    """A body is not YAML."""


def read_yaml(text: str) -> tuple[Any, list[str]]:
    """The first document of a text, and lines such as `line 2: key "a" already set in map`.

    Raises:
        YAMLBodyError: it is not YAML.
    """
    try:
        check_depth(text)
        loader = yaml.CSafeLoader(text)
        try:
            node = loader.get_node() if loader.check_node() else None
        finally:
            loader.dispose()
        reading = _Reading()
        return (None if node is None else reading.value(node)), reading.doubled
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark is not None else ""
        raise YAMLBodyError(f"{line}{error.problem}") from error
    except (ManifestError, yaml.YAMLError) as error:
        raise YAMLBodyError(str(error)) from error


class _Reading:
    """Reads the nodes of one document."""

    def __init__(self) -> None:
        self.doubled: list[str] = []
        self._decoded = 0
        self._aliased = 0
        self._seen: set[int] = set()
        self._around: set[int] = set()
        self._in_alias = 0

    def value(self, node: yaml.Node) -> Any:
        """The value of a node, which an alias may stand for."""
        return self._read(node, None)

    def _read(self, node: yaml.Node, into: dict[str, Any] | None) -> Any:
        """The value of a node; a mapping's keys are added to `into` if that is given."""
        identity = id(node)
        if identity in self._around:
            raise YAMLBodyError(f"line {node.start_mark.line + 1}: an anchor contains itself")
        alias = identity in self._seen
        if alias:
            # An alias is a node of its own.
            self._count()
        self._seen.add(identity)
        self._around.add(identity)
        self._in_alias += alias
        self._count()
        try:
            if isinstance(node, yaml.ScalarNode):
                return scalar(node)
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item) for item in node.value]
            return self._mapping(node, {} if into is None else into)
        finally:
            self._in_alias -= alias
            self._around.discard(identity)

    def _mapping(self, node: yaml.Node, made: dict[str, Any]) -> dict[str, Any]:
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                self._merge(value_node, made)
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise YAMLBodyError(f"line {key_node.start_mark.line + 1}: a key must be a scalar")
            name = key(key_node)
            value = self.value(value_node)
            if name in made:
                shown = literal(scalar(key_node))
                self.doubled.append(f"line {value_node.start_mark.line + 1}: key {shown} already set in map")
            made[name] = value
        return made

    def _merge(self, node: yaml.Node, made: dict[str, Any]) -> None:
        """Set the keys of other mappings here, over those that are there; of several, the first one wins."""
        sources = list(reversed(node.value)) if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                raise YAMLBodyError("map merge requires map or sequence of maps as the value")
            self._read(source, made)

    def _count(self) -> None:
        """Refuse aliases that make a small text an enormous document, by the rule of Go's reader."""
        self._decoded += 1
        self._aliased += self._in_alias > 0
        if self._aliased <= _UNSUSPICIOUS_ALIASED or self._decoded <= _UNSUSPICIOUS:
            return
        over = min(max((self._decoded - _LOW) / (_HIGH - _LOW), 0.0), 1.0)
        if self._aliased / self._decoded > 0.99 - 0.89 * over:
            raise YAMLBodyError("document contains excessive aliasing")
