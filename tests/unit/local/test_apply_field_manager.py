# SPDX-License-Identifier: Apache-2.0
"""Applies and updates by several managers: who owns what, who is refused, what goes."""

import copy
import json
from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.things import SPEC, VERSION, Document, Things, thing
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.merge.fieldmanager import ANNOTATION, check_entries
from trainwright.controller.local.apiserver.merge.fieldset import EntryError, UnfitObjectError
from trainwright.controller.local.apiserver.merge.managedfields import without_new_times

CASES = cases(__file__)


@pytest.fixture
def things() -> Things:
    return Things()


def fields(*names: str) -> Any:
    return {"f:spec": {f"f:{name}": {} for name in names}}


def test_an_apply_owns_what_it_names(things: Things) -> None:
    made = things.apply("one", {"text": "a"}, metadata={"name": "it", "namespace": "n", "labels": {"l": "1"}})
    assert made["spec"] == {"text": "a"}
    assert things.entries == [
        {
            "manager": "one",
            "operation": "Apply",
            "apiVersion": VERSION,
            "time": "2026-01-01T00:00:01Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:l": {}}}, "f:spec": {"f:text": {}}},
        }
    ]
    assert list(things.entries[0]) == ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1"]


def test_an_apply_that_changes_nothing_keeps_its_time(things: Things) -> None:
    before = things.apply("one", {"text": "a"})
    assert things.apply("one", {"text": "a"}) == before
    assert [entry.get("time") for entry in things.apply("two", {"text": "a"})["metadata"]["managedFields"]] == [
        None,
        "2026-01-01T00:00:01Z",
    ]


def test_a_conflict_with_one(things: Things) -> None:
    things.apply("one", {"text": "a", "number": 1})
    with pytest.raises(StatusError) as error:
        things.apply("two", {"text": "b", "number": 1})
    assert str(error.value) == 'Apply failed with 1 conflict: conflict with "one": .spec.text'
    assert error.value.details == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.text"}]
    }
    assert (error.value.code, error.value.reason) == (409, "Conflict")


def test_a_conflict_with_several(things: Things) -> None:
    things.apply("z", {"items": [{"name": "n", "x": "1"}], "number": 1, "flag": False})
    things.update("a", {"items": [{"name": "n", "x": "1"}], "number": 1, "flag": True})
    with pytest.raises(StatusError) as error:
        things.apply("two", {"items": [{"name": "n", "x": "2"}], "number": 2, "flag": False})
    assert str(error.value) == (
        f'Apply failed with 3 conflicts: conflicts with "a" using {VERSION}:\n- .spec.flag\n'
        'conflicts with "z":\n- .spec.number\n- .spec.items[name="n"].x'
    )


def test_a_conflict_with_an_owner_of_a_subresource(things: Things) -> None:
    things.apply("one", {"text": "a"})
    things.apply("two", None, status={"phase": "p"}, subresource="status")
    assert things.entries[1]["subresource"] == "status"
    with pytest.raises(StatusError, match=r'conflict with "two" with subresource "status": \.status\.phase$'):
        things.apply("three", None, status={"phase": "q"}, subresource="status")


def test_force_takes_over(things: Things) -> None:
    things.apply("one", {"text": "a", "number": 1})
    things.apply("two", {"text": "b"}, force=True)
    assert things.owners == {"one": fields("number"), "two": fields("text")}
    things.apply("three", {"text": "c", "number": 2}, force=True)
    assert things.owners == {"three": fields("number", "text")}


def test_what_two_own_stays_until_both_drop_it(things: Things) -> None:
    for manager in ("one", "two"):
        things.apply(manager, {"text": "a", "tags": ["t"]})
    assert things.apply("one", {"flag": True})["spec"] == {"text": "a", "tags": ["t"], "flag": True}
    assert things.apply("two", {"number": 1})["spec"] == {"flag": True, "number": 1}


def test_items_are_dropped_whole_or_in_part(things: Things) -> None:
    things.apply("one", {"items": [{"name": "n", "x": "1"}, {"name": "m", "x": "1"}]})
    things.apply("two", {"items": [{"name": "n", "y": "2"}]})
    assert things.apply("one", {"text": "a"})["spec"] == {"text": "a", "items": [{"name": "n", "y": "2"}]}


def test_a_field_of_another_inside_of_what_goes_stays(things: Things) -> None:
    things.apply("one", {"inner": {"a": "1"}, "text": "a"})
    things.update("two", {"inner": {"a": "1", "b": "2"}, "text": "a"})
    assert things.apply("one", {})["spec"] == {"inner": {"b": "2"}}


def test_items_and_undeclared_keys_go_with_what_others_own_in_them(things: Things) -> None:
    things.apply("one", {"text": "a", "free": {"k": {"a": 1}}, "items": [{"name": "n"}]})
    things.update("two", {"text": "a", "free": {"k": {"a": 1, "b": 2}}, "items": [{"name": "n", "x": "1"}]})
    assert things.apply("one", {"text": "a"})["spec"] == {"text": "a", "free": None, "items": None}


def with_entry(things: Things, owned: Document, spec: Document) -> None:
    """Let the object be one that `one` applied, with the managed fields as a person may edit them."""
    entry = {"manager": "one", "operation": "Apply", "apiVersion": VERSION, "fieldsType": "FieldsV1", "fieldsV1": owned}
    things.live = thing(spec, metadata={"name": "it", "uid": "u", "managedFields": [entry]})


@pytest.mark.parametrize(("owned", "live", "applied", "left"), CASES["what_goes_in_part"])
def test_what_goes_in_part(owned: Document, live: Document, applied: Document, left: Any, things: Things) -> None:
    with_entry(things, {"f:spec": owned}, live)
    assert things.apply("one", applied)["spec"] == dict.fromkeys(live, left)


def test_an_object_keeps_its_version_whoever_owns_it(things: Things) -> None:
    with_entry(things, {"f:apiVersion": {}, "f:spec": {"f:text": {}}}, {"text": "a", "flag": True})
    assert things.apply("one", {"flag": True})["apiVersion"] == VERSION
    assert things.live["spec"] == {"flag": True}


def test_an_empty_field_that_is_applied_again_goes_with_content_that_has_no_owner(things: Things) -> None:
    """An empty list in it owns nothing, and so holds nothing back."""
    things.apply("one", {"inner": {}, "text": "a"})
    things.live = {**things.live, "spec": {"inner": {"tags": [], "a": "1"}, "text": "a"}}
    assert things.apply("one", {"inner": {}, "text": "a"})["spec"] == {"text": "a"}


def test_an_update_owns_what_it_changed(things: Things) -> None:
    things.apply("one", {"text": "a", "number": 1, "flag": True})
    things.update("two", {"text": "b", "number": 1, "tags": ["t"]})
    update: dict[str, Any] = {"f:spec": {"f:tags": {".": {}, 'v:"t"': {}}, "f:text": {}}}
    assert things.owners == {"one": fields("number"), "two": update}
    with pytest.raises(StatusError):
        things.apply("one", {"text": "a"})


def test_updates_of_one_manager_add_up(things: Things) -> None:
    things.update("one", {"text": "a"})
    before = things.update("one", {"text": "a", "number": 1})["metadata"]["managedFields"]
    assert things.owners == {"one": {"f:spec": {".": {}, "f:number": {}, "f:text": {}}}}
    assert things.update("one", {"text": "a", "number": 1})["metadata"]["managedFields"] == before
    things.update("one", {"number": 1})
    assert things.owners == {"one": {"f:spec": {".": {}, "f:number": {}}}}


def test_the_status_is_not_owned_through_the_main_endpoint(things: Things) -> None:
    things.apply("one", {"text": "a"}, status={"phase": "p"})
    assert things.owners == {"one": fields("text")}
    things.update("two", {"text": "a"}, status={"phase": "q"})
    assert things.owners == {"one": fields("text")}
    things.update("three", {"text": "ignored"}, status={"phase": "r"}, subresource="status")
    assert things.owners["three"] == {"f:status": {"f:phase": {}}}


@pytest.mark.parametrize("document", CASES["documents_that_are_refused"])
def test_documents_that_are_refused(document: Document, things: Things) -> None:
    manager = things._manager("")
    with pytest.raises(StatusError) as error:
        manager.apply(None, document, "one", force=False, now=things._next())
    assert (error.value.code, error.value.reason) == (400, "BadRequest")


def test_a_document_that_does_not_fit(things: Things) -> None:
    with pytest.raises(UnfitObjectError) as error:
        things.apply("one", {"nothing": 1}, metadata={"name": "it", "namespace": "n"})
    assert (error.value.code, error.value.reason) == (500, "")
    assert str(error.value) == (
        "Thing it does not fit the schema of test.example/v1: .spec.nothing: field not declared in schema"
    )


def test_an_object_that_does_not_fit_any_more(things: Things) -> None:
    things.update("one", {"text": "a"})
    changed = copy.deepcopy(SPEC)
    changed["properties"]["text"] = {"type": "integer"}
    things.use(changed)
    with pytest.raises(UnfitObjectError, match=r"Thing it does not fit .*: \.spec\.text: expected"):
        things.apply("two", {})
    with pytest.raises(UnfitObjectError, match=r"Thing it does not fit .*: \.spec\.text: expected"):
        things.update("two", {"text": 1})


@pytest.mark.parametrize("entries", [[], [{}], [{"manager": "", "time": None}]])
def test_a_reset_and_the_first_apply_after_it(entries: list[Any], things: Things) -> None:
    things.update("one", {"text": "a"})
    things.update("one", {"text": "b"}, metadata={"name": "it", "managedFields": entries})
    assert things.entries == []
    assert things.update("one", {"text": "c"})["metadata"].get("managedFields") is None
    with pytest.raises(StatusError, match=f'conflict with "before-first-apply" using {VERSION}: .spec.text'):
        things.apply("two", {"text": "d"})
    things.apply("two", {"text": "c"})
    assert things.owners == {"two": fields("text"), "before-first-apply": {"f:spec": {".": {}, "f:text": {}}}}


@pytest.mark.parametrize("entry", CASES["entries_that_cannot_be_read_change_nothing"])
def test_entries_that_cannot_be_read_change_nothing(entry: Document, things: Things) -> None:
    things.update("one", {"text": "a"})
    before = things.owners
    things.update("two", {"text": "a"}, metadata={"name": "it", "managedFields": [entry]})
    assert things.owners == before


def test_entries_are_checked_after_admission(things: Things) -> None:
    check_entries(things.update("one", {"text": "a"}))
    entry = {"operation": "Update", "apiVersion": VERSION, "fieldsType": "V2"}
    with pytest.raises(EntryError, match=r'^invalid fieldsType "V2" in managed fields entry 0$'):
        check_entries(thing({}, metadata={"managedFields": [entry]}))


def test_an_object_that_equals_the_document_only_in_python(things: Things) -> None:
    things.apply("one", {"number": 1})
    things.live["spec"] = {"number": True}
    with pytest.raises(UnfitObjectError, match=r"does not fit .*: \.spec\.number: expected numeric"):
        things.apply("one", {"number": 1})


def test_sets_are_written_in_order_whatever_order_was_read_before(things: Things) -> None:
    spec: Document = {"f:free": {".": {}, "f:a": {}, "f:b": {"f:c": {}}}, "f:text": {}}
    ordered: Document = {"f:spec": spec, "v:1": {"f:a": {}}}
    odd = {**ordered, "f:spec": {"f:text": {".": {}}, "f:free": {"f:b": {"f:c": {}}, "f:a": {}, ".": {}}}}
    for owned in (ordered, odd, ordered, odd, {"f:spec": spec, "v:1.0": {"f:a": {}}}):
        with_entry(things, owned, {"free": {"a": 1, "b": {"c": 2}}, "text": "a"})
        things.apply("two", {"number": 1})
        assert json.dumps(things.owners["one"]) == json.dumps(ordered)


def test_the_order_of_entries_and_the_zones_of_times(things: Things) -> None:
    entry = {"operation": "Update", "apiVersion": VERSION, "fieldsType": "FieldsV1", "fieldsV1": fields("text")}
    given = [
        {**entry, "manager": "late", "time": "2025-01-01T01:00:00+00:00"},
        {**entry, "manager": "b", "time": "2025-01-01T01:00:00+02:00"},
        {**entry, "manager": "a", "time": "2024-12-31T23:00:00Z"},
        {**entry, "manager": "untimed"},
        {**entry, "manager": "z", "operation": "Apply", "time": "2025-01-01T09:00:00Z"},
    ]
    things.update("one", None, metadata={"name": "it", "managedFields": given})
    assert [(entry["manager"], entry.get("time")) for entry in things.entries] == [
        ("z", "2025-01-01T09:00:00Z"),
        ("untimed", None),
        ("a", "2024-12-31T23:00:00Z"),
        ("b", "2024-12-31T23:00:00Z"),
        ("late", "2025-01-01T01:00:00Z"),
    ]


def last_applied(spec: Document) -> Document:
    return {"name": "it", "annotations": {ANNOTATION: json.dumps(thing(spec))}}


def test_kubectl_goes_over_from_client_side_apply(things: Things) -> None:
    things.update("client-side", {"text": "a", "number": 1}, metadata=last_applied({"text": "a", "number": 1}))
    things.apply("kubectl", {"text": "b", "number": 1})
    assert things.live["spec"] == {"text": "b", "number": 1}
    annotation = things.live["metadata"]["annotations"][ANNOTATION]
    assert annotation == '{"apiVersion":"test.example/v1","kind":"Thing","metadata":{"name":"it"},"spec":{"number":1,"text":"b"}}\n'  # fmt: skip # noqa: E501


@pytest.mark.parametrize(("manager", "metadata"), CASES["what_client_side_apply_does_not_excuse"])
def test_what_client_side_apply_does_not_excuse(manager: str, metadata: Document, things: Things) -> None:
    things.update("client-side", {"text": "a"}, metadata=metadata)
    with pytest.raises(StatusError):
        things.apply(manager, {"text": "b"})


def test_conflicts_that_are_not_excused_are_told_alone(things: Things) -> None:
    things.update("client-side", {"text": "a", "number": 1}, metadata=last_applied({"text": "a"}))
    with pytest.raises(StatusError) as error:
        things.apply("kubectl", {"text": "b", "number": 2})
    assert [cause["field"] for cause in (error.value.details or {})["causes"]] == [".spec.number"]


def test_an_annotation_that_would_be_too_large_is_dropped(things: Things) -> None:
    things.apply("kubectl", {"text": "a"})
    things.update("client-side", {"text": "a"}, metadata=last_applied({"text": "a"}))
    things.apply("kubectl", {"text": "x" * 262_144})
    assert things.live["metadata"]["annotations"] == {}


def test_an_owner_in_another_version_keeps_what_it_names() -> None:
    things = Things()
    entry = {"manager": "old", "operation": "Apply", "apiVersion": "test.example/v0", "fieldsType": "FieldsV1"}
    live = thing(
        {"text": "a"}, metadata={"name": "it", "uid": "u", "managedFields": [{**entry, "fieldsV1": fields("text")}]}
    )
    manager = things._manager("")
    with pytest.raises(StatusError, match=r'^Apply failed with 1 conflict: conflict with "old": \.spec\.text$'):
        manager.apply(live, thing({"text": "b"}), "one", force=False, now=things._next())
    made = manager.apply(live, thing({"number": 1}), "one", force=False, now=things._next())
    assert [entry["manager"] for entry in made["metadata"]["managedFields"]] == ["old", "one"]


def test_documents_are_not_changed(things: Things) -> None:
    live = things.apply("one", {"items": [{"name": "n", "x": "1"}], "table": {"a": "1"}})
    document = thing({"items": [{"name": "n", "x": "2"}], "table": {"b": "2"}})
    before = copy.deepcopy([live, document])
    manager = things._manager("")
    for force in (True, False):
        try:
            manager.apply(live, document, "two", force=force, now=things._next())
        except StatusError:
            assert not force
    manager.update(live, document, "two", now=things._next())
    assert [live, document] == before


def test_times_alone_are_no_change(things: Things) -> None:
    things.update("one", {"text": "a"})
    old = things.live
    things.update("one", {"text": "b"})
    new = things.update("one", {"text": "a"})
    assert new != old
    assert without_new_times(old, new) == old
    # Another owner, or another value, is a change.
    for changed in (things.update("two", {"text": "a", "number": 1}), {**new, "spec": {"text": "b"}}):
        assert without_new_times(old, changed) is changed
    untracked = thing({"text": "a"})
    assert without_new_times(untracked, untracked) is untracked
