# SPDX-License-Identifier: Apache-2.0
"""What runs in place of an image follows the changes of `images.yaml`."""

import os
from pathlib import Path

import pytest

from trainwright.controller.local.node.images import DEFAULT, Environment, Images
from trainwright.controller.runtime.errors import ConfigurationError

ABSENT = Environment(name="absent", folders=(), refusal="no")


def written(file: Path, text: str) -> None:
    """Write the file, with a time of its own even where the clock of the file system is coarse."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(text)
    os.utime(file, ns=(before + 10**9, before + 10**9))


def test_entries_that_are_added_and_removed_count_at_once(tmp_path: Path) -> None:
    file = tmp_path / "images.yaml"
    images = Images.read(file, defaults=[("a*", ABSENT)])
    assert images.environment_of("a:1") is ABSENT
    assert images.environment_of("b:1") is DEFAULT
    written(file, 'images: [{image: "a:*", command: [run]}]')
    assert images.environment_of("a:1").command == ("run",)
    assert images.environment_of("ab:1") is ABSENT
    written(file, 'images: [{image: "a:*", command: [go]}]')
    assert images.environment_of("a:1").command == ("go",)
    file.unlink()
    assert images.environment_of("a:1") is ABSENT


def test_a_mistake_is_told_until_it_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "images.yaml"
    images = Images.read(file)
    written(file, "images: [{image: a, colour: red}]")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"images\[0\]: unknown colour"):
            images.environment_of("a")
    written(file, "images: [{image: a, refuse: no room}]")
    assert images.environment_of("a").refusal == "no room"
