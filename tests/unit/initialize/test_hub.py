# SPDX-License-Identifier: Apache-2.0
"""hf:// against a server that speaks the hub's protocol."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.unit.initialize.hub import COMMIT, Hub, Repository, answering, cut_after, serving
from tests.unit.initialize.runs import Outcome, initialize, part_of_the_largest, tree
from trainwright.controller.initialize.contract import Kind
from trainwright.controller.initialize.folder import PARTS, Folder
from trainwright.controller.initialize.manifest import MANIFEST

MIB = 2**20
WEIGHTS = bytes(range(256)) * 4096 * 3
FILES = {
    "config.json": b"{}",
    "empty.txt": b"",
    "folder/tokenizer.json": b"[1]",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"pickle",
    "README.md": b"read me",
}


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    model = Repository(dict(FILES), large=("model.safetensors",), revisions=("main", "v1", "refs/pr/1"))
    other, data = Repository({"other.gguf": b"gguf"}), Repository({"data/x.parquet": b"x", "y.csv": b"y"})
    async with serving(Hub({"models/o/n": model, "models/o/other": other, "datasets/o/n": data})) as it:
        yield it


async def fetch(hub: Hub, target: Path, address: str = "hf://o/n", kind: Kind = "model", **variables: str) -> Outcome:
    return await initialize(address, target, kind, {"HF_ENDPOINT": hub.url, **variables})


async def fetched(hub: Hub, target: Path, address: str = "hf://o/n", kind: Kind = "model", **variables: str) -> Outcome:
    outcome = await fetch(hub, target, address, kind, **variables)
    assert outcome.error is None, outcome.sentence
    return outcome


def marker(target: Path) -> bytes:
    return (target / MANIFEST).read_bytes()


def model(hub: Hub) -> Repository:
    return hub.repositories["models/o/n"]


async def test_a_model_is_its_weights_and_texts(hub: Hub, tmp_path: Path) -> None:
    await fetched(hub, tmp_path)
    assert tree(tmp_path) == {name: data for name, data in FILES.items() if not name.endswith((".bin", ".md"))}
    assert [one for one in hub.requests if one.startswith("HEAD")] == []
    # Revision, tree, four files of which the large one is redirected and the empty one not asked for.
    assert len(hub.requests) == 2 + 3 + 1


async def test_a_data_set_is_the_whole_repository_whatever_follows_the_name(hub: Hub, tmp_path: Path) -> None:
    await fetched(hub, tmp_path, "hf://o/n/data/x.parquet", kind="dataset")
    assert tree(tmp_path) == {"data/x.parquet": b"x", "y.csv": b"y"}


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({"ALLOW_PATTERNS": "*.bin, *.json"}, {"config.json", "folder/tokenizer.json", "pytorch_model.bin"}),
        ({"ALLOW_PATTERNS": "folder/"}, {"folder/tokenizer.json"}),
        ({"IGNORE_PATTERNS": " *.safetensors ,, *.txt"}, {"config.json", "folder/tokenizer.json"}),
    ],
)
async def test_patterns(hub: Hub, tmp_path: Path, variables: dict[str, str], names: set[str]) -> None:
    await initialize("hf://o/n", tmp_path, "model", {"HF_ENDPOINT": hub.url, **variables})
    assert tree(tmp_path).keys() == names


async def test_no_file_is_left(hub: Hub, tmp_path: Path) -> None:
    outcome = await fetch(hub, tmp_path / "target", ALLOW_PATTERNS="*.onnx")
    assert (outcome.word, outcome.sentence.split(" in ")[0]) == ("NothingFound", "the patterns leave no file of 6")
    assert not (tmp_path / "target").exists()


async def test_a_model_without_weights_is_warned_of(hub: Hub, tmp_path: Path) -> None:
    outcome = await fetched(hub, tmp_path, IGNORE_PATTERNS="*.safetensors")
    assert outcome.said("the source has *.bin: name them in ALLOW_PATTERNS")


async def test_the_second_start_is_one_request_and_of_a_commit_none(hub: Hub, tmp_path: Path) -> None:
    await fetch(hub, tmp_path)
    hub.requests.clear()
    assert (await fetch(hub, tmp_path)).said("complete: nothing to fetch")
    assert hub.requests == ["GET /api/models/o/n/revision/main"]
    pinned = f"hf://o/n@{COMMIT}"
    await fetch(hub, tmp_path, pinned)
    hub.requests.clear()
    await fetched(hub, tmp_path, pinned)
    assert hub.requests == []


@pytest.mark.parametrize("address", ["hf://o/n@v1", "hf://o/n?revision=v1", "HF://o/n@refs/pr/1"])
async def test_revisions(hub: Hub, tmp_path: Path, address: str) -> None:
    await fetched(hub, tmp_path, address)


async def test_a_branch_that_moved_brings_changes_only(hub: Hub, tmp_path: Path) -> None:
    await fetch(hub, tmp_path)
    model(hub).commit = "b" * 40
    model(hub).files["config.json"] = b'{"a": 1}'
    del model(hub).files["empty.txt"]
    hub.requests.clear()
    await fetched(hub, tmp_path)
    assert [one for one in hub.requests if "resolve" in one] == [f"GET /o/n/resolve/{'b' * 40}/config.json"]
    assert tree(tmp_path).keys() == {"config.json", "folder/tokenizer.json", "model.safetensors"}


async def test_another_model_takes_the_files_of_the_first_away_and_no_others(hub: Hub, tmp_path: Path) -> None:
    await fetch(hub, tmp_path)
    (tmp_path / "mine.txt").write_text("mine")
    await fetched(hub, tmp_path, "hf://o/other")
    assert tree(tmp_path) == {"mine.txt": b"mine", "other.gguf": b"gguf"}


async def test_a_switch_that_fails_half_way_leaves_no_marker_and_no_foreign_file_later(
    hub: Hub, tmp_path: Path
) -> None:
    await fetch(hub, tmp_path)
    hub.repositories["models/o/other"] = Repository({"a.json": b"1", "b.json": b"2"}, sent={"b.json": b"3"})
    assert (await fetch(hub, tmp_path, "hf://o/other")).word == "Damaged"
    assert not (tmp_path / ".trainwright/manifest.json").exists()
    hub.repositories["models/o/third"] = Repository({"c.gguf": b"gguf"})
    await fetched(hub, tmp_path, "hf://o/third")
    assert tree(tmp_path) == {"c.gguf": b"gguf"}


async def test_another_model_deletes_no_file_that_was_changed_since(hub: Hub, tmp_path: Path) -> None:
    await fetch(hub, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"trained in place")
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").mkdir()
    (tmp_path / "config.json/mine").write_text("mine")
    outcome = await fetched(hub, tmp_path, "hf://o/other")
    assert outcome.said("warning: model.safetensors stays: an earlier run fetched it, and it was changed since")
    kept = {"model.safetensors": b"trained in place", "config.json/mine": b"mine"}
    assert tree(tmp_path) == {**kept, "other.gguf": b"gguf"}


async def test_another_model_takes_away_files_that_were_copied_without_their_times(hub: Hub, tmp_path: Path) -> None:
    await fetch(hub, tmp_path)
    for name in tree(tmp_path):
        os.utime(tmp_path / name)
    await fetched(hub, tmp_path, "hf://o/other")
    assert tree(tmp_path) == {"other.gguf": b"gguf"}


async def test_a_run_that_failed_makes_no_file_of_the_user_ours(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text("mine")
    hub.repositories["models/o/first"] = Repository({"a.json": b"1", "b.json": b"23"}, sent={"b.json": b"33"})
    assert (await fetch(hub, tmp_path, "hf://o/first")).word == "Damaged"
    await fetched(hub, tmp_path, "hf://o/other")
    assert tree(tmp_path) == {"b.json": b"mine", "other.gguf": b"gguf"}


async def test_a_file_is_noted_before_it_has_its_name(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in between, the next run still knows the file, and another model takes it away."""
    rename = Folder.rename

    def killed(folder: Folder, old: str, new: str) -> None:
        rename(folder, old, new)
        if new == "model.safetensors":
            raise RuntimeError("killed")

    monkeypatch.setattr(Folder, "rename", killed)
    with pytest.raises(ExceptionGroup):
        await fetch(hub, tmp_path, TRAINWRIGHT_CONNECTIONS="1")
    monkeypatch.undo()
    await fetched(hub, tmp_path, "hf://o/other")
    assert tree(tmp_path) == {"other.gguf": b"gguf"}


@pytest.mark.parametrize("change", ["delete", "cut", "edit"])
async def test_a_file_that_was_changed_comes_again_alone(hub: Hub, tmp_path: Path, change: str) -> None:
    await fetch(hub, tmp_path)
    file = tmp_path / "config.json"
    if change == "delete":
        file.unlink()
    else:
        file.write_bytes(b"" if change == "cut" else b"[]")
    hub.requests.clear()
    await fetched(hub, tmp_path)
    assert [one.rpartition("/")[2] for one in hub.requests if "resolve" in one] == ["config.json"]
    assert file.read_bytes() == b"{}"


async def test_files_that_are_there_are_adopted_by_their_hash(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(WEIGHTS)
    (tmp_path / "config.json").write_bytes(b"[]")
    await fetched(hub, tmp_path)
    assert not any("safetensors" in one for one in hub.requests)
    assert (tmp_path / "config.json").read_bytes() == b"{}"


@pytest.mark.parametrize("times", [1, 3])
async def test_a_cut_connection_goes_on_inside_the_file(hub: Hub, tmp_path: Path, times: int) -> None:
    hub.faults.append(cut_after(WEIGHTS, MIB // 2 + 7, times=times, path="/cdn/"))
    outcome = await fetched(hub, tmp_path)
    assert len(outcome.pauses) == times
    assert (tmp_path / "model.safetensors").read_bytes() == WEIGHTS
    # The last answer had only the rest.
    assert hub.bytes_sent < len(WEIGHTS)


async def test_a_connection_that_is_always_cut_ends_with_a_sentence_and_a_part(hub: Hub, tmp_path: Path) -> None:
    hub.faults.append(cut_after(WEIGHTS, 1000, times=1000, path="/cdn/"))
    outcome = await fetch(hub, tmp_path)
    assert outcome.word == "Unreachable"
    assert outcome.sentence.endswith("after 5 tries")
    assert not (tmp_path / "model.safetensors").exists()
    assert part_of_the_largest(tmp_path).read_bytes() == WEIGHTS[:5000]
    hub.faults.clear()
    await fetched(hub, tmp_path)
    assert hub.bytes_sent < len(WEIGHTS)
    assert list((tmp_path / ".trainwright").glob("parts/*")) == []


async def test_a_part_of_other_content_is_dropped(hub: Hub, tmp_path: Path) -> None:
    hub.faults.append(cut_after(WEIGHTS, 1000, times=1000, path="/cdn/"))
    await fetch(hub, tmp_path)
    hub.faults.clear()
    model(hub).commit = "c" * 40
    model(hub).files["model.safetensors"] = WEIGHTS[::-1]
    await fetched(hub, tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == WEIGHTS[::-1]


def parts(target: Path) -> list[bytes]:
    return [one.read_bytes() for one in (target / ".trainwright/parts").glob("*")]


async def test_no_part_with_wrong_bytes_stays(hub: Hub, tmp_path: Path) -> None:
    model(hub).sent["model.safetensors"] = wrong = b"x" + WEIGHTS[1:]
    assert (await fetch(hub, tmp_path)).word == "Damaged"
    assert wrong not in parts(tmp_path)
    model(hub).sent.clear()
    await fetched(hub, tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == WEIGHTS


@pytest.mark.parametrize("verify", ["on", "off", ""])
async def test_a_bit_that_turned_under_an_unchanged_time_is_found_where_it_is_asked_for(
    hub: Hub, tmp_path: Path, verify: str
) -> None:
    await fetched(hub, tmp_path)
    path = tmp_path / "model.safetensors"
    times = path.stat()
    path.write_bytes(b"x" + WEIGHTS[1:])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    await fetched(hub, tmp_path, TRAINWRIGHT_VERIFY=verify)
    assert (path.read_bytes() == WEIGHTS) is (verify == "on")
    sent = hub.bytes_sent
    await fetched(hub, tmp_path, TRAINWRIGHT_VERIFY="on")
    assert (hub.bytes_sent == sent) is (verify == "on")


@pytest.mark.parametrize("sent", [b"[]", b"{}{}", b"[" * 3])
async def test_wrong_bytes_are_fetched_twice_and_refused(hub: Hub, tmp_path: Path, sent: bytes) -> None:
    model(hub).sent["config.json"] = sent
    outcome = await fetch(hub, tmp_path)
    assert outcome.word == "Damaged"
    assert outcome.sentence.startswith("config.json arrived twice")
    assert len([one for one in hub.requests if one.endswith("config.json") and "resolve" in one]) == 2
    assert not (tmp_path / "config.json").exists()
    assert sent not in parts(tmp_path)


async def test_a_short_file_is_refused(hub: Hub, tmp_path: Path) -> None:
    model(hub).sent["config.json"] = b"{"
    outcome = await fetch(hub, tmp_path)
    assert outcome.word == "Damaged"
    assert "127.0.0.1 has fewer bytes of config.json" in outcome.sentence
    assert not (tmp_path / "config.json").exists()
    assert b"{" not in parts(tmp_path)


async def test_a_size_of_the_listing_is_a_limit(hub: Hub, tmp_path: Path) -> None:
    model(hub).sizes["model.safetensors"] = 1000
    outcome = await fetch(hub, tmp_path)
    assert outcome.word == "Damaged"
    assert all(part.stat().st_size <= 1000 for part in (tmp_path / PARTS).iterdir())


async def test_space_is_looked_at_before_the_first_byte(hub: Hub, tmp_path: Path) -> None:
    model(hub).sizes["model.safetensors"] = 2**60
    outcome = await fetch(hub, tmp_path)
    assert outcome.word == "NoSpace"
    assert "1073741824.0 GiB are needed" in outcome.sentence
    assert not any("resolve" in one for one in hub.requests)
    model(hub).sizes.clear()
    await fetched(hub, tmp_path)


@pytest.mark.parametrize(
    ("answers", "pauses"),
    [
        ([lambda: web.Response(status=429, headers={"Retry-After": "17"})], [17]),
        ([lambda: web.Response(status=429, headers={"Retry-After": "100000"})], [300]),
        ([lambda: web.Response(status=503), lambda: web.Response(status=500)], [2, 4]),
        ([lambda: web.Response(body=b"<html>", content_type="text/html")], [2]),
    ],
)
@pytest.mark.parametrize("path", ["/revision/", "/tree/"])
async def test_servers_in_trouble_are_asked_again(
    hub: Hub, tmp_path: Path, answers: list[web.Response], pauses: list[int], path: str
) -> None:
    hub.faults.append(answering(path, *answers))  # type: ignore[arg-type]
    outcome = await fetched(hub, tmp_path)
    assert outcome.pauses == pauses


async def test_an_expired_signature_is_asked_for_again(hub: Hub, tmp_path: Path) -> None:
    hub.faults.append(answering("/cdn/", lambda: web.Response(status=403)))
    await fetched(hub, tmp_path)
    assert len([one for one in hub.requests if one.endswith("model.safetensors") and "resolve" in one]) == 2


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_complete_folder_survives_a_hub_that_is_down(hub: Hub, tmp_path: Path, status: int) -> None:
    await fetch(hub, tmp_path)
    hub.faults.append(answering("/api/", *[lambda: web.Response(status=status)] * 5))
    outcome = await fetched(hub, tmp_path)
    assert outcome.said("is complete at revision")


async def test_a_half_folder_does_not_pass_for_a_model_when_the_hub_is_gone(hub: Hub, tmp_path: Path) -> None:
    await fetch(hub, tmp_path)
    (tmp_path / "config.json").unlink()
    outcome = await initialize("hf://o/n", tmp_path, "model", {"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert outcome.word == "Unreachable"
    assert outcome.sentence.startswith("127.0.0.1 does not answer")
    assert outcome.sentence.endswith("after 5 tries")
    assert len(outcome.pauses) == 4


async def test_offline(hub: Hub, tmp_path: Path) -> None:
    assert (await fetch(hub, tmp_path, HF_HUB_OFFLINE="1")).word == "Unreachable"
    await fetch(hub, tmp_path)
    hub.requests.clear()
    await fetched(hub, tmp_path, HF_HUB_OFFLINE="1")
    assert hub.requests == []


@pytest.mark.parametrize(
    ("address", "variables", "word", "text"),
    [
        ("hf://o/none", {}, "TokenMissing", "name it in spec.initializer.model.secretRef"),
        ("hf://o/none", {"HF_TOKEN": "good-token"}, "NotFound", "there is no model o/none that this token can see"),
        ("hf://o/private", {}, "TokenMissing", "put ACCESS_TOKEN into a Secret"),
        ("hf://o/private", {"ACCESS_TOKEN": "good-token"}, "", ""),
        ("hf://o/private", {"HUGGING_FACE_HUB_TOKEN": "good-token"}, "", ""),
        ("hf://o/private", {"ACCESS_TOKEN": "good-token", "HF_TOKEN": "other-token"}, "NotFound", "o/private"),
        (
            "hf://o/n",
            {"ACCESS_TOKEN": "bad-token"},
            "TokenRefused",
            "the hub does not accept the token in ACCESS_TOKEN",
        ),
        *(
            (address, {"ACCESS_TOKEN": "bad-token", "HF_TOKEN": "good-token"}, "TokenRefused", "HF_TOKEN is used")
            for address in ("hf://o/n", f"hf://o/n@{COMMIT}")
        ),
        ("hf://o/n", {"ACCESS_TOKEN": "other-token", "HF_TOKEN": "good-token"}, "", ""),
        ("hf://o/gated", {}, "TokenMissing", "model o/gated is gated: it needs a token"),
        ("hf://o/gated", {"HF_TOKEN": "other-token"}, "AccessNotGranted", "ask for it on its page"),
        ("hf://o/gated", {"HF_TOKEN": "good-token"}, "", ""),
        ("hf://o/n@v3", {}, "RevisionNotFound", "o/n has no revision v3"),
    ],
)
async def test_tokens_and_what_is_missing(
    hub: Hub, tmp_path: Path, address: str, variables: dict[str, str], word: str, text: str
) -> None:
    hub.tokens = ("good-token", "other-token")
    hub.repositories["models/o/private"] = Repository({"a.json": b"1"}, token="good-token")
    hub.repositories["models/o/gated"] = Repository({"a.json": b"1"}, gated_for=("", "other-token"))
    outcome = await initialize(address, tmp_path, "model", {"HF_ENDPOINT": hub.url, **variables})
    assert (outcome.word, text in outcome.sentence, outcome.pauses) == (word, True, [])


async def test_a_refusal_touches_nothing_of_a_complete_folder(hub: Hub, tmp_path: Path) -> None:
    await fetch(hub, tmp_path)
    before = (tree(tmp_path), marker(tmp_path))
    assert (await fetch(hub, tmp_path, "hf://o/none")).word == "TokenMissing"
    assert (tree(tmp_path), marker(tmp_path)) == before


async def test_the_token_goes_to_the_hub_and_not_to_the_host_of_a_redirect(hub: Hub, tmp_path: Path) -> None:
    hub.tokens = ("good-token",)
    await fetch(hub, tmp_path, HF_TOKEN="good-token")
    by_host = {host.partition(":")[0]: set[str]() for host, _, _ in hub.headers}
    for host, _, authorization in hub.headers:
        by_host[host.partition(":")[0]].add(authorization)
    assert by_host == {"127.0.0.1": {"Bearer good-token"}, "localhost": {""}}


@pytest.mark.parametrize("cursors", ["", "&cursor=1", "&cursor={number}"])
async def test_a_listing_without_an_end_ends_at_once(hub: Hub, tmp_path: Path, cursors: str) -> None:
    """The next page is the same one, the one before, or another name of the same one."""

    async def circle(request: web.Request) -> web.StreamResponse | None:
        if "/tree/" not in request.path:
            return None
        link = f"{hub.url}{request.path}?recursive=true&expand=false{cursors.format(number=len(hub.requests))}"
        entry = {"type": "file", "oid": "0" * 40, "size": 1, "path": "a.json"}
        entries = [entry] if "number" in cursors or "cursor" not in request.query else []
        return web.json_response(entries, headers={"Link": f'<{link}>; rel="next"'})

    hub.faults.append(circle)
    outcome = await fetch(hub, tmp_path)
    assert (outcome.word, outcome.pauses) == ("ServerError", [])
    assert "without an end" in outcome.sentence
    assert len([one for one in hub.requests if "/tree/" in one]) <= 2


async def test_pages_stay_on_the_mirror(hub: Hub, tmp_path: Path) -> None:
    hub.page, hub.next_host = 2, "https://hub.example.com"
    await fetched(hub, tmp_path)
    assert len([one for one in hub.requests if "/tree/" in one]) == 3
    assert len(tree(tmp_path)) == 4


@pytest.mark.parametrize(
    "name", ["../x.json", "a/../../x.json", ".trainwright/x.json", "C:x.json", "a\\x.json", "/x.json"]
)
async def test_names_that_lead_out_of_the_folder(hub: Hub, tmp_path: Path, name: str) -> None:
    model(hub).files[name] = b"1"
    outcome = await fetch(hub, tmp_path / "target")
    assert outcome.word == "BadName"
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("place", ["folder", "config.json", ".trainwright", "folder/tokenizer.json"])
async def test_links_in_the_target_are_not_followed(hub: Hub, tmp_path: Path, place: str) -> None:
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    (target / place).parent.mkdir(parents=True)
    (target / place).symlink_to(outside)
    outcome = await fetch(hub, target)
    assert outcome.word == "NotWritable"
    assert "is a link" in outcome.sentence
    assert list(outside.iterdir()) == []


async def test_a_folder_where_a_file_should_be(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    outcome = await fetch(hub, tmp_path)
    assert (outcome.word, "config.json" in outcome.sentence) == ("NotWritable", True)


@pytest.mark.parametrize("data", [b"{torn", b'{"version": 2}', b"", b"\xff"])
async def test_a_marker_that_cannot_be_read_is_no_marker(hub: Hub, tmp_path: Path, data: bytes) -> None:
    await fetch(hub, tmp_path)
    (tmp_path / ".trainwright/manifest.json").write_bytes(data)
    hub.requests.clear()
    outcome = await fetched(hub, tmp_path)
    assert outcome.said("cannot be read by this version")
    assert not any("resolve" in one for one in hub.requests)


async def test_a_dry_run_writes_nothing(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = await initialize("hf://o/n", tmp_path / "t", "model", {"HF_ENDPOINT": hub.url}, dry_run=True)
    assert outcome.error is None
    assert not (tmp_path / "t").exists()
    shown = capsys.readouterr().out
    assert "3.0 MiB  model.safetensors" in shown
    assert "4 files, 3.0 MiB" in shown


async def test_progress_counts_bytes_and_files(hub: Hub, tmp_path: Path) -> None:
    hub.faults.append(cut_after(WEIGHTS, MIB, times=1, path="/cdn/"))
    progress = (await fetch(hub, tmp_path)).progress
    assert progress is not None
    size = sum(map(len, tree(tmp_path).values()))
    assert (progress.bytes, progress.bytes_total, progress.files, progress.files_total) == (size, size, 4, 4)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("hf://", "model"),
        ("hf://o/n/x", "model"),
        ("hf://o/n@", "model"),
        ("hf://o/..", "model"),
        ("hf://o/n?rev=x", "model"),
        ("hf://o/n@a?revision=b", "model"),
        ("hf://o n/x", "dataset"),
    ],
)
async def test_addresses_that_name_no_repository(tmp_path: Path, address: str, kind: Kind) -> None:
    assert (await initialize(address, tmp_path, kind)).word == "WrongAddress"
