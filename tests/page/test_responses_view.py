"""The list of responses, and what is known of one of them."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Route, expect

from tests.page.browser import Opened, new_context, open_tab
from tests.page.model_server import ModelServer
from tests.page.seed import WEATHER
from tests.page.world import World
from tests.serving import run_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]

TRACED = {"antiphon-trace": "record"}
SLOW_SECONDS = 5
"""More than between two refreshes of the list."""


def rows(page: Opened) -> Locator:
    return page.tab.locator(".responses tbody tr")


def suggestions(page: Opened, field: Locator) -> Locator:
    """The options of a field with a list."""
    return page.tab.locator(f"datalist[id='{field.get_attribute('list')}'] option")


def traced_call(world: World, **members: Any) -> dict[str, Any]:
    """A response of two items with a trace."""
    body = {"model": "tools", "input": "What is the weather?", "tools": [WEATHER], **members}
    return world.post("/v1/responses", body, **TRACED)


def count_events(world: World, response: str) -> int:
    """How many events of a response are stored."""
    last, more = -1, True
    while more:
        path = f"/v1/responses/{response}/events?limit=1000"
        page = world.get(path if last < 0 else f"{path}&after={last}")
        last, more = page["data"][-1]["sequence_number"], page["has_more"]
    return last + 1


@pytest.mark.requirement("PAGE/responses-filters")
def test_filters_combine_are_in_the_address_and_are_cleared(page: Opened, world: World) -> None:
    wanted = world.respond("echo", "A needle in the hay.")["id"]
    world.respond("echo", "Only hay.")
    world.respond("json", "A needle of another model.")
    calls = traced_call(world)["id"]
    page.go("responses")
    page.tab.get_by_label("Text or id").fill("needle")
    expect(rows(page)).to_have_count(2)
    page.tab.get_by_label("Model", exact=True).fill("echo")
    expect(rows(page)).to_have_count(1)
    page.tab.get_by_label("Time").select_option("1h")
    page.tab.get_by_label("Status").select_option("completed")
    expect(page.tab).to_have_url(re.compile(r"text=needle.*model=echo.*since=1h.*status=completed"))
    page.tab.reload()
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("A needle in the hay.")
    expect(page.tab.get_by_label("Text or id")).to_have_value("needle")
    page.tab.get_by_label("Status").select_option("failed")
    page.tab.get_by_role("link", name="Clear the filters").click()
    expect(page.tab.get_by_label("Text or id")).to_have_value("")
    expect(page.tab.get_by_label("Model", exact=True)).to_have_value("")
    page.tab.get_by_label("Tool", exact=True).fill("get_weather")
    expect(rows(page)).to_have_count(1)
    expect(rows(page).get_by_role("link")).to_have_attribute("href", f"#/responses/{calls}")
    expect(rows(page)).to_contain_text("get_weather")
    page.tab.get_by_label("Tool", exact=True).fill("")
    expect(rows(page)).not_to_have_count(1)  # of the filter before, until the answer to this one is there
    page.tab.get_by_label("Text or id").fill(wanted)
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("A needle in the hay.")


@pytest.mark.requirement("PAGE/responses-filters")
def test_filters_suggest_models_and_tools_and_take_dates(page: Opened, world: World) -> None:
    traced_call(world)
    page.go("responses")
    model = page.tab.get_by_label("Model", exact=True)
    expect(suggestions(page, model).and_(page.tab.locator("[value=steady]"))).to_have_count(1)
    tool = page.tab.get_by_label("Tool", exact=True)
    for name in ("get_weather", "file_search"):
        expect(suggestions(page, tool).and_(page.tab.locator(f"[value={name}]"))).to_have_count(1)
    expect(page.tab.get_by_label("From")).to_have_count(0)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    yesterday = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 24 * 3600))
    page.tab.get_by_label("Time").select_option("dates")
    page.tab.get_by_label("To", exact=True).fill(yesterday)
    page.see("No response matches")
    page.tab.get_by_label("To", exact=True).fill(today)
    page.tab.get_by_label("From").fill(yesterday)
    expect(rows(page).first).to_be_visible()
    expect(page.tab).to_have_url(re.compile(f"since=dates&to={today}&from={yesterday}"))


@pytest.mark.requirement("PAGE/responses-filters")
def test_rows_stay_dimmed_until_those_of_another_filter_are_there(page: Opened, world: World) -> None:
    world.respond("echo", "A straw.")
    world.respond("json", "A stem.")
    page.go("responses")
    expect(rows(page).filter(has_text="A straw.")).to_have_count(1)
    held: list[Route] = []
    page.tab.route("**/v1/responses?*model=json*", lambda route: held.append(route))  # noqa: PLW0108 -- it takes no built-in function
    page.tab.get_by_label("Model", exact=True).fill("json")
    busy = page.tab.locator("[aria-busy=true]")
    expect(busy).to_have_count(1)
    expect(busy).to_have_css("opacity", "0.5")
    expect(rows(page).filter(has_text="A straw.")).to_have_count(1)
    expect(page.tab.get_by_role("status")).to_have_count(0)
    held[-1].continue_()
    page.tab.unroute("**/v1/responses?*model=json*")
    expect(busy).to_have_count(0)
    expect(rows(page).filter(has_text="A straw.")).to_have_count(0)
    expect(rows(page).filter(has_text="A stem.")).to_have_count(1)


@pytest.mark.requirement("PAGE/responses-live")
def test_a_slow_server_fills_the_list(page: Opened, world: World) -> None:
    world.respond("echo", "Slowly.")

    def slow(route: Route) -> None:
        time.sleep(SLOW_SECONDS)
        route.continue_()

    page.tab.route("**/v1/responses?*", slow)
    page.go("responses")
    expect(rows(page)).not_to_have_count(0, timeout=4000 * SLOW_SECONDS)
    page.tab.unroute_all(behavior="ignoreErrors")


def test_a_response_that_runs_is_first_and_ends_without_a_reload(page: Opened, world: World) -> None:
    running = world.respond("hangs", "I wait.", background=True)["id"]
    world.respond("echo", "I am newer.")
    page.go("responses")
    expect(rows(page).first).to_contain_text("I wait.")
    expect(rows(page).first).to_contain_text(re.compile("queued|in progress"))
    world.post(f"/v1/responses/{running}/cancel", {})
    expect(rows(page).filter(has_text="I wait.")).to_contain_text("cancelled")


@pytest.mark.requirement("PAGE/responses-clock")
def test_items_have_their_clock_as_a_waterfall(page: Opened, world: World) -> None:
    earlier = world.respond("echo", "Hello.")["id"]
    response = traced_call(world, previous_response_id=earlier)["id"]
    page.go(f"responses/{response}")
    spans = page.tab.locator(".waterfall li")
    expect(spans.first).to_contain_text("store · history")
    for name in ("connect", "first token", "generation"):
        expect(spans.filter(has_text=name).first).to_be_visible()
    page.see("What is the weather?")
    expect(page.tab.get_by_text("Function call: get_weather").first).to_be_visible()
    durations = spans.locator(".number").evaluate_all("all => all.map(each => getComputedStyle(each).color)")
    assert len(set(durations)) == 1, "the longest span is not an error"


@pytest.mark.requirement("PAGE/responses-clock")
def test_the_detail_has_the_times_of_the_list(page: Opened, world: World) -> None:
    response = world.respond("echo", "How long?")["id"]
    (listed,) = world.get(f"/v1/responses?text={response}")["data"]
    page.go(f"responses/{response}")
    expect(page.tab.locator(".fact-strip")).to_contain_text(f"took {listed['total_ms']} ms")


@pytest.mark.requirement("PAGE/responses-clock")
def test_items_of_earlier_turns_are_folded(page: Opened, world: World) -> None:
    earlier = world.respond("echo", "The first turn.")["id"]
    response = world.respond("echo", "The second turn.", previous_response_id=earlier)["id"]
    page.go(f"responses/{response}")
    page.see("You said: The second turn.")
    items = page.tab.locator(".item")
    expect(items).to_have_count(2)
    fold = page.button("Earlier turns: 2 items")
    expect(fold).to_have_attribute("aria-expanded", "false")
    fold.click()
    expect(items).to_have_count(4)
    expect(items.first).to_contain_text("The first turn.")
    fold.click()
    expect(items).to_have_count(2)


@pytest.mark.requirement("PAGE/responses-live")
def test_a_row_shows_the_call_of_a_tool_and_texts_without_marks(page: Opened, world: World) -> None:
    call = world.respond("tools", "What is the weather?", tools=[WEATHER])
    text = world.respond("mistral-small", "The incident of last night.")
    page.go("responses")
    made = call["output"][-1]
    of_call = rows(page).filter(has=page.tab.locator(f"a[href='#/responses/{call['id']}']"))
    expect(of_call.locator(".preview")).to_contain_text(f"{made['name']}({made['arguments']})")
    of_text = rows(page).filter(has=page.tab.locator(f"a[href='#/responses/{text['id']}']"))
    expect(of_text.locator(".preview")).to_contain_text("Summary. From 02:14")
    expect(of_text.get_by_role("link")).to_have_text(f"…{text['id'][-6:]}")
    box = of_text.locator(".preview").bounding_box()
    assert box is not None
    assert box["width"] > 300


@pytest.mark.requirement("PAGE/responses-clock")
def test_without_a_trace_the_page_says_that_there_is_none(page: Opened, world: World) -> None:
    response = world.respond("echo", "Untraced.")["id"]
    page.go(f"responses/{response}")
    page.see("No timeline: no trace was recorded.")
    for tab, title in (("Upstream", "No trace was recorded"), ("Events", "No events were recorded")):
        page.tab.get_by_role("tab", name=tab).click()
        page.see(title)
        page.see("antiphon-trace: record")


@pytest.mark.requirement("PAGE/responses-upstream")
def test_both_requests_and_both_answers_are_side_by_side(
    page: Opened, world: World, models: ModelServer
) -> None:
    body = {
        "model": "echo",
        "input": "Translate me.",
        "instructions": "Be exact.",
        "temprature": 1,
    }
    response = world.post("/v1/responses", body, **TRACED)
    assert response["downgrades"]
    page.go(f"responses/{response['id']}?tab=upstream")
    sides = page.tab.locator(".split > *")
    expect(sides).to_have_count(4)
    expect(sides.nth(0)).to_contain_text("Be exact.")
    expect(sides.nth(0).locator(".marked")).to_contain_text("temprature")
    expect(sides.nth(1)).to_contain_text(f"POST {models.url}/chat/completions")
    expect(sides.nth(1)).to_contain_text("messages")
    expect(sides.nth(2)).to_contain_text("You said: Translate me.")
    expect(sides.nth(3)).to_contain_text("chat.completion")
    page.see("did you mean temperature?")
    page.button("Copy the request as code").click()
    expect(page.tab.get_by_role("dialog")).to_contain_text("antiphon-trace: record")


@pytest.mark.requirement("PAGE/responses-upstream")
def test_tools_are_folded_up_to_what_was_emulated_in_them(page: Opened, world: World) -> None:
    response = traced_call(world)["id"]
    page.go(f"responses/{response}?tab=upstream")
    sent = page.tab.locator(".split > *").first
    expect(sent.get_by_role("button", name="tools:")).to_have_attribute("aria-expanded", "false")
    deep = "tools[0].parameters.properties.city.properties.name.format: not sent, as the model ignores it"

    def with_mark(route: Route) -> None:
        trace = world.get(f"/v1/responses/{response}/trace")
        city = trace["client_request"]["body"]["tools"][0]["parameters"]["properties"]["city"]
        city["properties"] = {"name": {"type": "string", "format": "city"}}
        (first,) = trace["rounds"]
        first["downgrades"] = [deep]
        route.fulfill(json={**trace, "rounds": [first, {**first, "index": 1}]})

    page.tab.route("**/trace", with_mark)
    page.tab.reload()
    expect(page.tab.locator(".marked")).to_contain_text('"city"')
    expect(sent).not_to_contain_text('"unit"')
    page.button("Round 2").click()
    expect(page.tab.get_by_text("To the client", exact=True)).to_have_count(1)
    page.see("The output for the client is in round 2.")


@pytest.mark.requirement("PAGE/responses-upstream")
def test_an_answer_of_the_embedded_model_has_no_request_over_http(browser: Browser, tmp_path: Path) -> None:
    with run_server(tmp_path, "--no-discovery", environment={"NO_PROXY": "127.0.0.1"}) as server:
        world = World(server)
        body = {"model": "local", "input": "Say hello.", "max_output_tokens": 4}
        response = world.post("/v1/responses", body, **TRACED)["id"]
        context = new_context(browser)
        page = open_tab(context, world.base)
        page.go(f"responses/{response}?tab=upstream")
        page.see("nothing was sent over HTTP")
        page.see("Say hello.")
        expect(page.tab.get_by_role("alert")).to_have_count(0)
        assert page.errors == []
        context.close()


@pytest.mark.requirement("PAGE/responses-events")
def test_every_event_is_a_step(page: Opened, world: World) -> None:
    response = world.respond("echo", "Step by step.", background=True)["id"]
    page.go(f"runs/{response}")
    expect(page.tab.locator(".properties .badge")).to_have_text("completed")
    events = world.get(f"/v1/responses/{response}/events?limit=1000")["data"]
    page.go(f"responses/{response}?tab=events")
    shown = page.tab.locator(".event-row")
    expect(shown.first).to_contain_text(events[0]["event"]["type"])
    expect(page.tab.get_by_text(f"1 of {len(events)}")).to_be_visible()
    page.tab.keyboard.press("j")
    page.tab.keyboard.press("j")
    expect(page.tab.get_by_text(f"3 of {len(events)}")).to_be_visible()
    expect(page.tab.locator(".json")).to_contain_text(f'"{events[2]["event"]["type"]}"')
    page.tab.keyboard.press("k")
    expect(page.tab.locator(".event-row[aria-current]")).to_contain_text(events[1]["event"]["type"])
    page.button("Next").click()
    expect(page.tab.get_by_text(f"3 of {len(events)}")).to_be_visible()


@pytest.mark.requirement("PAGE/responses-events")
def test_events_of_a_long_run_are_read_once_even_if_they_arrive_slowly(
    page: Opened, world: World, models: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "words", 100_000)
    response = world.respond("steady", "Count.", background=True)["id"]
    asked: list[str] = []

    def slowly(route: Route) -> None:
        asked.append(route.request.url)
        time.sleep(2.5)  # longer than the page waits before it asks again
        route.continue_()

    page.tab.route("**/events?*", slowly)
    page.go(f"responses/{response}?tab=events")
    expect(page.tab.locator(".event-row").first).to_be_visible(timeout=30_000)
    page.tab.wait_for_timeout(5_000)
    world.post(f"/v1/responses/{response}/cancel", {})
    expect(page.tab.locator(".head .badge")).to_have_text("cancelled", timeout=30_000)
    total = count_events(world, response)
    expect(page.tab.get_by_text(f"1 of {total}")).to_be_visible(timeout=30_000)
    assert len(asked) > 2
    assert ["after=" in url for url in asked] == [False] + [True] * (len(asked) - 1)


@pytest.mark.requirement("PAGE/responses-errors")
def test_an_error_is_shown_with_its_cause(page: Opened, world: World) -> None:
    world.call("POST", "/v1/responses", {"model": "breaks", "input": "Break."})
    page.go("responses?status=failed&model=breaks")
    rows(page).first.click()
    alert = page.tab.get_by_role("alert")
    expect(alert).to_contain_text("gpu-1")
    expect(alert.locator("code")).not_to_be_empty()


@pytest.mark.requirement("PAGE/views-jump")
def test_every_kind_of_id_leads_to_its_place(page: Opened, world: World) -> None:
    conversation = world.post("/v1/conversations", {})["id"]
    response = world.respond("echo", "In a conversation.", conversation=conversation)
    run = world.post("/v1/agent/runs", {"title": "Jump here", "instruction": "Write two lines."})["id"]
    file_id = world.upload("jump.md", b"# Jumped to\n")
    traced = traced_call(world)["id"]
    places = {
        conversation: f"chains/{conversation}",
        run: f"runs/{run}",
        file_id: f"files/{file_id}",
        response["output"][0]["id"]: f"responses/{response['id']}",
        world.get(f"/v1/responses/{traced}/trace")["request_id"]: f"responses/{traced}",
    }
    page.go("usage")
    for wanted, place in places.items():
        page.tab.keyboard.press("/")
        page.tab.get_by_role("dialog", name="Jump to").get_by_label("Id").fill(wanted)
        page.tab.keyboard.press("Enter")
        page.tab.wait_for_url(f"**/#/{place}*")
        if wanted == file_id:
            expect(page.tab.get_by_role("dialog", name="jump.md")).to_contain_text("# Jumped to")
            page.tab.keyboard.press("Escape")
            page.tab.wait_for_url("**/#/files")
            expect(page.tab.get_by_role("dialog")).to_have_count(0)
