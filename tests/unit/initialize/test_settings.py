# SPDX-License-Identifier: Apache-2.0
"""Variables, options, patterns, names and secrets."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assertions import does_not_raise
from trainwright.controller.initialize.contract import InitializeError, RemoteFile
from trainwright.controller.initialize.reports import Redactor, secrets_in, secrets_of
from trainwright.controller.initialize.selection import advice_on_weights, bad_name, check_names, matches, settings_of


def test_variables_and_defaults() -> None:
    settings = settings_of("dataset", {"STORAGE_URI": " HF://o/n ", "IGNORE_PATTERNS": "", "OUTPUT_PATH": ""})
    assert (settings.scheme, settings.address, settings.target) == ("hf", "HF://o/n", Path("/workspace/dataset"))
    assert (settings.allow, settings.ignore, settings.connections, settings.checks_space) == ((), (), 8, True)


def test_options_win() -> None:
    variables = {"STORAGE_URI": "hf://o/n", "OUTPUT_PATH": "/a"}
    assert settings_of("model", variables).target == Path("/a")
    settings = settings_of("model", variables, address="file:///x", target="/b")
    assert (settings.scheme, settings.target) == ("file", Path("/b"))


@pytest.mark.parametrize(
    ("variables", "word"),
    [
        ({}, "WrongAddress"),
        ({"STORAGE_URI": "  "}, "WrongAddress"),
        ({"STORAGE_URI": "o/n"}, "WrongAddress"),
        ({"STORAGE_URI": "://o/n"}, "WrongAddress"),
        ({"STORAGE_URI": "hf://o/n", "TRAINWRIGHT_CONNECTIONS": "0"}, "WrongSetting"),
        ({"STORAGE_URI": "hf://o/n", "TRAINWRIGHT_CONNECTIONS": "many"}, "WrongSetting"),
        ({"STORAGE_URI": "hf://o/n", "TRAINWRIGHT_SPACE_CHECK": "maybe"}, "WrongSetting"),
        ({"STORAGE_URI": "hf://o/n", "TRAINWRIGHT_VERIFY": "yes"}, "WrongSetting"),
    ],
)
def test_wrong_variables(variables: dict[str, str], word: str) -> None:
    with pytest.raises(InitializeError) as caught:
        settings_of("model", variables)
    assert caught.value.word == word


@given(st.text("ab/.*?[]"), st.text("ab/.*?[]", min_size=1))
def test_patterns_are_those_of_fnmatch(name: str, pattern: str) -> None:
    wanted = pattern + "*" if pattern.endswith("/") else pattern
    assert matches(name, [pattern]) == fnmatchcase(name, wanted)


LONE_SURROGATE = chr(0xD800)


@pytest.mark.parametrize(
    "name",
    [
        *("", "/a", "..", "../a", "a/..", "a/../b", ".", "a/./b", "a//b", "a/"),
        *("a\\b", "\\\\host\\a", "C:a", "c:/a", "a\0b", "a\nb", "a\x7f", LONE_SURROGATE),
        *("x" * 256, "a/" + "ä" * 128, ".trainwright", ".trainwright/lock", ".TrainWright/x"),
    ],
)
def test_bad_names(name: str) -> None:
    assert bad_name(name)


@pytest.mark.parametrize("name", ["a", "a/b", "..a", "a..", ".a", "a b", "ä", "+%25", "x" * 255, "a/.trainwright"])
def test_good_names(name: str) -> None:
    assert not bad_name(name)


@pytest.mark.parametrize(
    "names", [("a", "A"), ("a/x", "A/y"), ("a", "a/b"), ("a/b", "a"), ("a", "a"), ("ß", "ss"), ("e\u0301", "\u00e9")]
)
def test_names_that_meet(names: tuple[str, str]) -> None:
    with pytest.raises(InitializeError) as caught:
        check_names([RemoteFile(name, 1) for name in names])
    assert caught.value.word == "BadName"


def test_names_that_do_not_meet() -> None:
    with does_not_raise():
        check_names([RemoteFile(name, 1) for name in ("a/b", "a/c", "b", "a/d/e", "ab")])


def test_advice_on_weights() -> None:
    offered = [RemoteFile(name, 1) for name in ("config.json", "pytorch_model.bin", "x.pt")]
    assert "*.bin, *.pt" in advice_on_weights(offered[:1], offered)
    assert "none" in advice_on_weights(offered[:1], offered[:1])
    assert advice_on_weights([RemoteFile("model.gguf", 1)], offered) == ""


def test_secrets_are_hidden_in_every_form() -> None:
    values = secrets_of({"HF_TOKEN": "hf_a/b+c", "OTHER": "seen", "MINE": "my-key", "ACCESS_TOKEN": ""}, ["MINE"])
    redactor = Redactor([*values, *secrets_in("https://u:p%40ss@h/f?X-Signature=0123456789abcdef")])
    text = "hf_a/b+c hf_a%2Fb%2Bc seen my-key p@ss 0123456789abcdef"
    assert redactor.clean(text) == "*** *** seen *** *** ***"


def test_users_and_queries_of_addresses_are_cut() -> None:
    text = "get https://u:p@host/a?b=c#d and s3://k@b/x?y, 'http://h/?q'"
    assert Redactor().clean(text) == "get https://host/a#d and s3://b/x 'http://h/'"
