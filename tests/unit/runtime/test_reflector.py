# SPDX-License-Identifier: Apache-2.0
"""List and watch against a script."""

import asyncio
from typing import Any

from trainwright.controller.runtime.cache.reflector import RetryDelays
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import Unreachable
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.objects import config_map
from trainwright.controller.runtime.testing.scripted import (
    ScriptedTransport,
    bookmark,
    frame,
    is_list,
    is_streaming_list,
    is_watch,
    listing,
    status_body,
)

FOREVER = float("inf")
LIST_WATCH = {"watch": "true", "allowWatchBookmarks": "true"}


def now() -> float:
    return asyncio.get_running_loop().time()


def gone(transport: ScriptedTransport, when: Any, **options: Any) -> None:
    transport.answer(when, status_body(410, "Expired"), status=410, **options)


@jumping
async def test_falls_back_to_a_list_without_streaming(scenario_class: Any) -> None:
    s = scenario_class(streaming=True)
    s.transport.answer(is_streaming_list, status_body(400, "BadRequest"), status=400)
    s.transport.answer(is_list, listing("10", config_map("a", version="7")))
    s.transport.stream(is_watch)
    informer = s.informer()
    async with s.running():
        assert informer.synced
        assert s.queries()[1:] == [{"limit": "500", "resourceVersion": "0"}, {**LIST_WATCH, "resourceVersion": "10"}]
    assert s.told == ["added a ->7!"]


@jumping
async def test_watches_end_at_random_times(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    watches = [s.transport.stream(is_watch) for _ in range(101)]
    s.informer()
    async with s.running():
        for watch in watches[:100]:
            await watch.opened.wait()
            await asyncio.sleep(2)
            watch.end()
        await watches[100].opened.wait()
    seconds = [int(str(request.query["timeoutSeconds"])) for request in s.transport.requests[1:]]
    assert len(seconds) == 101
    assert all(300 <= value < 600 for value in seconds)
    assert min(seconds) < 400
    assert max(seconds) > 500


@jumping
async def test_a_streaming_list_is_one_request(scenario_class: Any) -> None:
    s = scenario_class(streaming=True)
    stream = s.transport.stream(is_streaming_list, frame("ADDED", config_map("a", version="3")), bookmark("4"))
    informer = s.informer()
    async with s.running():
        assert not informer.synced
        assert s.told == []
        stream.send(frame("ADDED", config_map("b", version="1")), bookmark("9", end_of_list=True))
        await settle()
        assert informer.synced
        assert informer.store.resource_version == "9"
        stream.send(frame("MODIFIED", config_map("a", version="12")))
        await settle()
    assert s.told == ["added a ->3!", "added b ->1!", "modified a 3>12"]
    assert s.queries() == [
        {**LIST_WATCH, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
    ]


@jumping
async def test_a_cut_streaming_list_is_thrown_away(scenario_class: Any) -> None:
    s = scenario_class(streaming=True)
    objects = [frame("ADDED", config_map(name, version="3")) for name in "ab"]
    s.transport.stream(is_streaming_list, *objects, end=True)
    s.transport.stream(is_streaming_list, *objects, bookmark("5", end_of_list=True))
    informer = s.informer()
    async with s.running():
        await asyncio.sleep(2)
        assert informer.synced
    assert s.told == ["added a ->3!", "added b ->3!"]
    assert all(is_streaming_list(r) for r in s.transport.requests)


@jumping
async def test_a_streaming_list_without_an_end_falls_back(scenario_class: Any) -> None:
    s = scenario_class(streaming=True)
    s.transport.stream(is_streaming_list, frame("ADDED", config_map("a", version="3")))
    s.transport.answer(is_list, listing("10", config_map("a", version="7")))
    s.transport.stream(is_watch)
    informer = s.informer()
    async with s.running():
        await asyncio.sleep(29)
        assert not informer.synced
        await asyncio.sleep(2)
        assert informer.synced
    assert s.told == ["added a ->7!"]


@jumping
async def test_pages_replace_the_store_once(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10", config_map("a", version="1"), continue_token="t1"))
    s.transport.answer(is_list, listing("10", config_map("b", version="2"), continue_token="t2"))
    s.transport.answer(is_list, listing("10", config_map("c", version="3")))
    s.transport.stream(is_watch)
    s.informer()
    async with s.running():
        assert s.queries()[:3] == [
            {"limit": "500", "resourceVersion": "0"},
            {"limit": "500", "continue": "t1"},
            {"limit": "500", "continue": "t2"},
        ]
    assert s.told == ["added a ->1!", "added b ->2!", "added c ->3!"]


@jumping
async def test_a_page_that_is_gone_leads_to_one_whole_list(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10", config_map("a", version="1"), continue_token="t1"))
    gone(s.transport, is_list)
    s.transport.answer(is_list, listing("11", config_map("b", version="2")))
    s.transport.stream(is_watch)
    s.informer()
    async with s.running():
        assert s.queries()[2] == {"resourceVersion": "0"}
        assert now() == 0
    assert s.told == ["added b ->2!"]


@jumping
async def test_a_list_that_is_gone_is_repeated_at_once_without_a_version(scenario_class: Any) -> None:
    s = scenario_class()
    gone(s.transport, is_list)
    s.transport.answer(is_list, listing("11"))
    s.transport.stream(is_watch)
    informer = s.informer()
    async with s.running():
        assert s.queries()[1] == {"limit": "500"}
        assert now() == 0
        assert informer.synced


@jumping
async def test_a_watch_that_ends_is_continued(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    first = s.transport.stream(is_watch)
    s.transport.stream(is_watch)
    s.informer()
    async with s.running():
        await asyncio.sleep(60)
        first.send(bookmark("40"))
        await asyncio.sleep(100)
        first.end()
        await settle()
        assert s.queries()[2] == {**LIST_WATCH, "resourceVersion": "40"}
        assert s.transport.times[2] == 160
        assert first.closed.is_set()


@jumping
async def test_an_expired_watch_lists_from_the_last_version(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    error = status_body(410, "Expired", "too old")
    s.transport.stream(is_watch, frame("ADDED", config_map("a", version="12")), frame("ERROR", error))
    s.transport.answer(is_list, listing("20", config_map("a", version="12")))
    s.transport.stream(is_watch)
    s.informer()
    async with s.running():
        await asyncio.sleep(2)
        assert s.queries()[2] == {"resourceVersion": "12"}
        assert 0.8 <= s.transport.times[2] < 1.6


@jumping
async def test_an_unreachable_server_is_asked_again_from_the_same_version(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    s.transport.fail(is_watch, Unreachable("refused"), times=3)
    s.transport.stream(is_watch)
    informer = s.informer()
    async with s.running():
        assert "refused" in str(informer.last_error)
        await asyncio.sleep(20)
        assert informer.last_error is None
    gaps = [b - a for a, b in zip(s.transport.times[1:], s.transport.times[2:], strict=False)]
    assert [0.8 * 2**n <= gap < 1.6 * 2**n for n, gap in enumerate(gaps)] == [True] * 3
    assert all(q == {**LIST_WATCH, "resourceVersion": "10"} for q in s.queries()[1:])


@jumping
async def test_a_forbidden_watch_is_reported_and_listed_again(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"), times=FOREVER)
    s.transport.answer(is_watch, status_body(403, "Forbidden", "cannot watch configmaps"), status=403)
    s.transport.stream(is_watch)
    informer = s.informer()
    async with s.running():
        assert "cannot watch configmaps" in str(informer.last_error)
        await asyncio.sleep(2)
        assert [is_list(r) for r in s.transport.requests] == [True, False, True, False]
        assert informer.statistics().failures == 1


@jumping
async def test_watches_that_end_at_once_do_not_spin(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"), times=FOREVER)
    for _ in range(50):
        s.transport.stream(is_watch, end=True)
    s.informer()
    async with s.running():
        await asyncio.sleep(60)
    assert sum(map(is_watch, s.transport.requests)) <= 8


def test_backoff_grows_and_starts_again() -> None:
    delays, now_, pauses = RetryDelays(rand=lambda: 0.0), 0.0, []
    for _ in range(10):
        pauses.append(delays.step(now_))
        now_ += pauses[-1]
    assert pauses == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 30.0, 0.8]


def test_backoff_forgets_after_a_calm_time() -> None:
    delays = RetryDelays(rand=lambda: 0.0)
    for at in range(5):
        delays.step(float(at))
    assert delays.step(305.0) == 0.8


@jumping
async def test_what_cannot_be_read_is_skipped(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    s.transport.stream(
        is_watch,
        b'{"type":"ADDED","object":[1]}\n',
        frame("ADDED", config_map("a", version="12")),
    )
    informer = s.informer()
    async with s.running():
        assert informer.store.resource_version == "12"
    assert s.told == ["added a ->12"]


@jumping
async def test_a_frame_may_be_written_in_any_form(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    s.transport.stream(
        is_watch,
        b'{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"default","resourceVersion":"11"}}}\n',
        b'{ "type" : "ADDED", "object" : {"metadata":{"name":"b","namespace":"default","resourceVersion":"12"}} }\n',
        b'{"object":{"metadata":{"name":"c","namespace":"default","resourceVersion":"13"}},"type":"ADDED"}\n',
        b'{"type":"\\u0041DDED","object":{"metadata":{"name":"d","namespace":"default","resourceVersion":"14"}}}\r\n',
    )
    s.informer()
    async with s.running():
        await asyncio.sleep(1)
    assert s.told == ["added a ->11", "added b ->12", "added c ->13", "added d ->14"]


@jumping
async def test_a_stream_of_nonsense_is_left_and_listed_again(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"), times=FOREVER)
    s.transport.stream(is_watch, b"<html>\n")
    s.transport.stream(is_watch, b'{"type":"BOOKMARK","object":7}\n')
    s.transport.stream(
        is_watch, b'{"type":"ADDED","object":{"metadata":{"name":"a",}}}\n'
    )  # as a frame begins and ends
    s.transport.stream(is_watch)
    informer = s.informer()
    async with s.running():
        assert "not a frame" in str(informer.last_error)
        await asyncio.sleep(12)  # the three delays add up to 11.2 s at most
        assert [is_list(r) for r in s.transport.requests] == [True, False] * 4
        assert informer.last_error is None


@jumping
async def test_a_silent_stream_is_closed_and_resumed(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    first = s.transport.stream(is_watch, frame("ADDED", config_map("a", version="12")))
    s.transport.stream(is_watch)
    s.informer()
    async with s.running():
        await asyncio.sleep(149)
        assert not first.closed.is_set()
        await asyncio.sleep(2)
        assert first.closed.is_set()
        assert s.queries()[2] == {**LIST_WATCH, "resourceVersion": "12"}


@jumping
async def test_a_server_that_is_silent_about_a_version_of_the_future_is_listed_again(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("5000", config_map("a", version="4000"), config_map("b", version="4001")))
    too_large = status_body(
        504,
        "Timeout",
        "Too large resource version",
        causes=[{"reason": "ResourceVersionTooLarge"}],
        retryAfterSeconds=1,
    )
    s.transport.answer(is_list, too_large, status=504, headers={"retry-after": "1"})
    s.transport.answer(is_list, listing("11", config_map("a", version="9", uid="another")))
    silent = s.transport.stream(is_watch)
    s.transport.stream(is_watch)
    informer = s.informer()
    async with s.running():
        await silent.opened.wait()
        s.told.clear()
        await silent.closed.wait()
        assert now() == 150
        await asyncio.sleep(10)
        assert s.told == ["deleted b 4001>-?", "modified a 4000>9"]
        assert informer.store.resource_version == "11"
        asked = [query for query in s.queries() if "watch" not in query]
        version = {"resourceVersion": "5000", "resourceVersionMatch": "NotOlderThan"}
        assert asked[1:] == [{"limit": "1", **version}, {"limit": "500"}]
        assert s.queries()[-1] == {**LIST_WATCH, "resourceVersion": "11"}


@jumping
async def test_a_silent_watch_of_a_server_that_has_the_version_goes_on_without_a_list(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    s.transport.answer(is_list, listing("10"))
    s.transport.fail(is_list, Unreachable("away"))
    watches = [s.transport.stream(is_watch) for _ in range(3)]
    s.informer()
    async with s.running():
        await watches[2].opened.wait()
        assert [is_list(r) for r in s.transport.requests] == [True, False, True, False, True, False]
        assert {query.get("resourceVersion") for query in s.queries()[1:]} == {"10"}
        assert [query.get("limit") for query in s.queries()] == ["500", None, "1", None, "1", None]


@jumping
async def test_a_watch_past_its_time_is_ended(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    first = s.transport.stream(is_watch)
    s.transport.stream(is_watch)
    s.informer()
    async with s.running():
        for n in range(11, 30):
            await asyncio.sleep(60)
            first.send(bookmark(str(n)))
            if first.closed.is_set():
                break
        assert 330 <= now() <= 660


@jumping
async def test_being_told_to_slow_down_is_obeyed(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    s.transport.answer(is_watch, status_body(429, "TooManyRequests"), status=429, headers={"retry-after": "7"})
    s.transport.stream(is_watch)
    s.informer()
    async with s.running():
        await asyncio.sleep(10)
        assert s.transport.times[2] == 7


@jumping
async def test_frames_may_be_cut_anywhere(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    line = frame("ADDED", config_map("a", version="12", data={"k": "ü" * 50}))
    stream = s.transport.stream(is_watch)
    s.informer()
    async with s.running():
        for index in range(len(line)):
            stream.send(line[index : index + 1])
        await settle()
        assert s.told == ["added a ->12"]
        stream.send(frame("ADDED", config_map("b", version="13"))[:-5])
        s.transport.stream(is_watch)
        stream.cut()
        await settle()
        assert s.told == ["added a ->12"]
        assert s.queries()[-1]["resourceVersion"] == "12"


def test_requests_name_product_and_controller(scenario_class: Any) -> None:
    @jumping
    async def check() -> None:
        s = scenario_class()
        s.transport.answer(is_list, listing("10"))
        await s.client.list_page(s.cache.informer(_kind()).kind)
        request: Request = s.transport.requests[0]
        assert request.headers["User-Agent"].startswith("trainwright/")
        assert request.headers["User-Agent"].endswith(" scenario")

    check()


def _kind() -> Any:
    from trainwright.api.kubernetes.core.v1 import ConfigMap  # noqa: PLC0415

    return ConfigMap
