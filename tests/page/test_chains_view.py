"""Chains: the tree of responses, and the same question to another model."""

import pytest
from playwright.sync_api import Locator, expect

from tests.page.browser import Opened
from tests.page.seed import WEATHER
from tests.page.world import World

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]


@pytest.fixture
def chain(world: World) -> tuple[str, str, str]:
    """A response, and two that continue it."""
    root = world.respond("echo", "Root.")["id"]
    left = world.respond("echo", "Left.", previous_response_id=root)["id"]
    right = world.respond("echo", "Right.", previous_response_id=root)["id"]
    return root, left, right


def nodes(page: Opened) -> Locator:
    return page.tab.locator(".node")


def outcomes(page: Opened) -> Locator:
    return page.tab.get_by_role("dialog").locator("section.outcome")


def time_row(table: Locator) -> Locator:
    return table.get_by_role("row").filter(has_text="Time")


def shown_duration(milliseconds: int) -> str:
    """As the page shows it."""
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.2f} s"


def replay(page: Opened, node: Locator, model: str, changes: str = "", *, branch: bool = False) -> None:
    node.get_by_role("button", name="Replay").click()
    dialog = page.tab.get_by_role("dialog")
    dialog.get_by_label("Model").select_option(model)
    dialog.get_by_label("Changed parameters").fill(changes)
    if branch:
        dialog.get_by_role("checkbox").check()
    dialog.get_by_role("button", name="Replay", exact=True).click()


@pytest.mark.requirement("PAGE/chains-tree")
def test_a_chain_is_a_tree_that_grows_from_any_node(
    page: Opened, world: World, chain: tuple[str, str, str]
) -> None:
    root, left, _ = chain
    page.go(f"chains/{left}")
    expect(nodes(page)).to_have_count(3)
    expect(nodes(page).first).to_contain_text("2 branches")
    expect(nodes(page).nth(1)).to_contain_text("7 in, 5 out")
    expect(page.tab.locator(".node.current")).to_contain_text("Left.")
    nodes(page).nth(1).get_by_role("button", name="Continue").click()
    page.tab.wait_for_url("**/#/playground*")
    page.see("Continues")
    message = page.tab.get_by_role("textbox", name="Message")
    expect(page.tab.get_by_role("combobox", name="Model")).to_have_value("echo")
    message.fill("Further.")
    message.press("Enter")
    page.see("You said: Further.")
    page.go(f"chains/{root}")
    expect(nodes(page)).to_have_count(4)
    newest = world.get("/v1/responses?limit=1")["data"][0]
    assert newest["previous_response_id"] == left


@pytest.mark.requirement("PAGE/chains-tree")
def test_a_conversation_is_a_chain(page: Opened, world: World) -> None:
    conversation = world.post("/v1/conversations", {})["id"]
    for text in ("One.", "Two."):
        world.respond("echo", text, conversation=conversation)
    page.go("chains")
    page.tab.locator(f"a[href='#/chains/{conversation}']").click()
    expect(nodes(page)).to_have_count(2)
    page.see(conversation)


@pytest.mark.requirement("PAGE/chains-tree")
def test_a_compaction_is_marked_in_the_tree(page: Opened, world: World, chain: tuple[str, str, str]) -> None:
    manage = [{"type": "compaction", "compact_threshold": 5}]
    world.respond("echo", "Compact us. " * 20, previous_response_id=chain[2], context_management=manage)
    page.go(f"chains/{chain[0]}")
    compacted = nodes(page).filter(has_text="Compact us.")
    expect(compacted.locator(".badge")).to_have_text("compaction")
    expect(page.tab.locator(".badge", has_text="compaction")).to_have_count(1)


@pytest.mark.requirement("PAGE/chains-replay")
def test_a_response_is_replayed_with_another_model_and_parameters(
    page: Opened, world: World, chain: tuple[str, str, str]
) -> None:
    page.go(f"chains/{chain[1]}")
    replay(page, nodes(page).nth(1), "mistral-small", '{"temperature": 0}')
    expect(outcomes(page)).to_have_count(1)
    table = outcomes(page).get_by_role("row")
    for name in ("Model", "Input tokens", "Output tokens", "Time", "Cost"):
        expect(table.filter(has_text=name)).to_have_count(1)
    expect(table.filter(has_text="Model")).to_contain_text("mistral-small")
    expect(outcomes(page).locator("del").first).to_have_text("You")
    expect(outcomes(page).locator("ins").first).to_contain_text("Antiphon")
    newest = world.get("/v1/responses?limit=1")["data"][0]["id"]
    again = world.get(f"/v1/responses/{newest}")
    assert (again["model"], again["temperature"]) == ("mistral-small", 0)
    items = world.get(f"/v1/responses/{newest}/input_items?order=asc")["data"]
    assert [item["content"][0]["text"] for item in items] == ["Root.", "You said: Root.", "Left."]


@pytest.mark.requirement("PAGE/chains-replay")
def test_a_whole_branch_is_replayed(page: Opened, world: World, chain: tuple[str, str, str]) -> None:
    page.go(f"chains/{chain[1]}")
    replay(page, nodes(page).nth(1), "json", branch=True)
    expect(outcomes(page)).to_have_count(2)
    second, first = world.get("/v1/responses?limit=2")["data"]
    assert second["previous_response_id"] == first["id"]
    assert (first["previous_response_id"], first["model"], second["model"]) == (None, "json", "json")
    assert (first["input_preview"], second["input_preview"]) == ("Root.", "Left.")


@pytest.mark.requirement("PAGE/chains-replay")
def test_a_branch_with_calls_is_replayed_by_a_model_that_makes_none(page: Opened, world: World) -> None:
    asked = world.respond("tools", "Paris and Rome?", tools=[WEATHER])
    outputs = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": text}
        for call, text in zip(asked["output"], ("21 °C", "30 °C"), strict=True)
    ]
    answered = world.respond("tools", outputs, tools=[WEATHER], previous_response_id=asked["id"])["id"]
    page.go(f"chains/{answered}")
    replay(page, nodes(page).nth(1), "echo", branch=True)
    expect(outcomes(page)).to_have_count(2)
    expect(page.tab.get_by_role("alert")).to_have_count(0)
    second, first = world.get("/v1/responses?limit=2")["data"]
    assert second["previous_response_id"] == first["id"]
    items = world.get(f"/v1/responses/{second['id']}/input_items?order=asc")["data"]
    assert [item["type"] for item in items[2:]] == ["function_call", "function_call_output"] * 2
    assert [item["output"] for item in items[3::2]] == ["21 °C", "30 °C"]
    expect(time_row(outcomes(page).last)).to_contain_text(shown_duration(second["total_ms"]))
    totals = page.tab.get_by_role("region", name="Totals of the branch")
    expect(totals.get_by_role("row").filter(has_text="Input tokens")).to_contain_text("14")
    expect(time_row(totals)).to_contain_text(shown_duration(first["total_ms"] + second["total_ms"]))


@pytest.mark.requirement("PAGE/chains-replay")
def test_parameters_that_are_no_json_are_refused(page: Opened, chain: tuple[str, str, str]) -> None:
    page.go(f"chains/{chain[0]}")
    replay(page, nodes(page).first, "echo", "[]")
    expect(page.tab.get_by_role("alert")).to_contain_text("write a JSON object")
