"""What the playground sends: branches, attachments, parameters, tools and their answers, and code."""

import base64
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.browser import Opened
from tests.page.model_server import ModelServer
from tests.page.seed import DOCUMENTS, WEATHER, add_documents
from tests.page.world import World

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]

PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
        "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
        "0000000049454e44ae426082"
    )
).decode()
_GIVE_FILES = """([element, kind, files]) => {
  const data = new DataTransfer();
  for (const [name, type, base64] of files) {
    const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
    data.items.add(new File([bytes], name, {type}));
  }
  const event = kind === 'paste'
    ? new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true})
    : new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true});
  element.dispatchEvent(event);
}"""


def open_playground(page: Opened, model: str) -> None:
    page.go("playground")
    page.tab.get_by_role("combobox", name="Model").first.select_option(model)


def say(page: Opened, text: str) -> None:
    """Send a message, after the answer to the one before."""
    expect(page.tab.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
    message = page.tab.get_by_role("textbox", name="Message")
    message.fill(text)
    message.press("Enter")


def give_files(page: Opened, kind: str, *files: tuple[str, str, str]) -> None:
    """Paste or drop files into the message."""
    field = page.tab.get_by_role("textbox", name="Message").element_handle()
    page.tab.evaluate(_GIVE_FILES, [field, kind, files])


def sent_by(tab: Page, page: Opened, text: str) -> dict[str, Any]:
    """The body of the request that this message makes."""
    with tab.expect_request(lambda request: request.method == "POST") as sent:
        say(page, text)
    return json.loads(sent.value.post_data or "")


def newest(world: World) -> str:
    return world.get("/v1/responses?limit=1")["data"][0]["id"]


@pytest.mark.requirement("PAGE/playground-branch")
def test_a_message_that_is_edited_and_sent_again_begins_a_branch(page: Opened, world: World) -> None:
    open_playground(page, "echo")
    say(page, "First.")
    page.see("You said: First.")
    say(page, "Second.")
    page.see("You said: Second.")
    page.button("Edit and resend").last.click()
    message = page.tab.get_by_role("textbox", name="Message")
    expect(message).to_have_value("Second.")
    say(page, "Other.")
    page.see("You said: Other.")
    expect(page.tab.get_by_text("You said: Second.")).to_have_count(0)
    page.tab.get_by_role("link", name="Chain", exact=True).last.click()
    page.see("2 branches")
    page.see("Second.")
    newest = world.get("/v1/responses?limit=1")["data"][0]
    nodes = world.get(f"/v1/responses/{newest['id']}/chain")["nodes"]
    parents = [node["parent"] for node in nodes if node["input_preview"] in {"Second.", "Other."}]
    assert len(nodes) == 3
    assert len(parents) == 2
    assert len(set(parents)) == 1


@pytest.mark.requirement("PAGE/playground-attachments")
@pytest.mark.parametrize("kind", ["paste", "drop"])
def test_files_and_images_are_attached(page: Opened, models: ModelServer, kind: str) -> None:
    open_playground(page, "echo")
    notes = base64.b64encode(b"The lighthouse is red.").decode()
    give_files(page, kind, ("dot.png", "image/png", PNG), ("notes.txt", "text/plain", notes))
    attached = page.tab.locator(".attachments li")
    expect(attached).to_have_count(2)
    expect(attached.first.locator("img")).to_be_visible()
    say(page, "Look.")
    page.see("You said:")
    content = json.dumps(models.requests[-1]["messages"][-1]["content"])
    assert PNG in content
    assert "The lighthouse is red." in content
    expect(attached).to_have_count(0)
    page.button("Edit and resend").click()
    expect(attached).to_have_count(2)
    page.button("Remove notes.txt").click()
    expect(attached).to_have_count(1)


@pytest.mark.requirement("PAGE/playground-code")
def test_a_request_is_copied_as_a_program_that_runs(page: Opened, world: World) -> None:
    page.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_playground(page, "echo")
    page.tab.get_by_role("textbox", name="Message").fill("It's “me”.")
    page.button("Copy as code").click()
    programs: dict[str, str] = {}
    for language in ("curl", "TypeScript", "Python"):
        page.button(language).click()
        page.button("Copy the program").click()
        expect(page.button("Copy the program")).to_have_text("✓")
        programs[language] = page.tab.evaluate("navigator.clipboard.readText()")
        expect(page.button("Copy the program")).not_to_have_text("✓")
    assert programs["curl"].startswith(f"curl {world.base}/v1/responses")
    assert "await client.responses.create({" in programs["TypeScript"]
    environment = {**os.environ, "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"}
    run = subprocess.run(
        [sys.executable, "-c", programs["Python"]],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "You said: It's “me”.\n"


@pytest.mark.requirement("PAGE/playground-code")
def test_the_curl_command_sends_attachments_of_any_size(page: Opened) -> None:
    page.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_playground(page, "echo")
    text = base64.b64encode(b"The lighthouse is red. " * 10_000).decode()
    give_files(page, "drop", ("notes.txt", "text/plain", text))
    page.tab.get_by_role("textbox", name="Message").fill("It's “me”: $HOME `id`")
    page.button("Copy as code").click()
    page.button("Copy the program").click()
    expect(page.button("Copy the program")).to_have_text("✓")
    program = page.tab.evaluate("navigator.clipboard.readText()")
    environment = {**os.environ, "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"}
    run = subprocess.run(["bash"], input=program, env=environment, capture_output=True, text=True, check=True)
    (message,) = json.loads(run.stdout)["output"]
    assert message["content"][0]["text"].endswith("It's “me”: $HOME `id`")


def test_a_request_that_was_sent_is_copied_as_it_was(page: Opened) -> None:
    open_playground(page, "echo")
    say(page, "Remember me.")
    page.see("You said: Remember me.")
    page.button("Copy as code").first.click()
    expect(page.tab.get_by_role("dialog")).to_contain_text("Remember me.")


@pytest.mark.requirement("PAGE/playground-two-models")
def test_two_models_answer_side_by_side(page: Opened) -> None:
    open_playground(page, "echo")
    page.button("Two models").click()
    page.tab.get_by_role("combobox", name="Model").nth(1).select_option("mistral-small")
    say(page, "Who are you?")
    page.see("You said: Who are you?", within=page.tab.get_by_role("region", name="Conversation with echo"))
    other = page.tab.get_by_role("region", name="Conversation with mistral-small")
    page.see("Antiphon serves the Responses API", within=other)
    left, right = (each.bounding_box() for each in page.tab.locator(".column").all())
    assert left is not None
    assert right is not None
    assert (left["y"], left["width"]) == (right["y"], right["width"])
    assert left["x"] + left["width"] <= right["x"]


@pytest.mark.requirement("PAGE/playground-calls")
def test_the_outputs_of_all_calls_are_sent_together(page: Opened) -> None:
    open_playground(page, "tools")
    page.tab.get_by_text("Tools", exact=True).click()
    function = {key: value for key, value in WEATHER.items() if key != "type"}
    page.tab.get_by_label("Functions (JSON)").fill(json.dumps(function))
    say(page, "Paris and Rome?")
    outputs = page.tab.get_by_label("Output of get_weather")
    expect(outputs).to_have_count(2)
    outputs.nth(0).fill("21 °C")
    outputs.nth(1).fill("30 °C")
    page.button("Send 2 outputs").click()
    page.see("It is 21 °C and 30 °C.")


@pytest.mark.requirement("PAGE/playground-parameters")
def test_parameters_are_sent_as_they_are_set(page: Opened) -> None:
    open_playground(page, "json")
    page.tab.get_by_label("Instructions").fill("Be brief.")
    page.tab.get_by_label("Reasoning effort").select_option("low")
    page.tab.get_by_label("Temperature").fill("0.5")
    page.tab.get_by_text("Schema of the answer").click()
    page.tab.get_by_label("JSON schema").fill("{")
    say(page, "Who?")
    expect(page.tab.get_by_role("alert")).to_contain_text("Schema: ")
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    page.tab.get_by_label("JSON schema").fill(json.dumps(schema))
    page.tab.get_by_text("Delivery").click()
    page.tab.get_by_label("Profile").select_option("openai")
    body = sent_by(page.tab, page, "Who?")
    assert body["instructions"] == "Be brief."
    assert body["reasoning"]["effort"] == "low"
    assert body["temperature"] == 0.5
    assert body["text"]["format"]["schema"] == schema


@pytest.mark.requirement("PAGE/playground-citations")
def test_a_citation_opens_the_passage_of_its_source(page: Opened, world: World, models: ModelServer) -> None:
    add_documents(world, DOCUMENTS)
    models.gate.set()
    open_playground(page, "searches")
    page.tab.get_by_text("Tools", exact=True).click()
    page.tab.get_by_label("handbook").check()
    say(page, "How do I revoke a key?")
    page.see("Two years")
    found, message = world.get(f"/v1/responses/{newest(world)}")["output"]
    (citation,) = message["content"][0]["annotations"]
    hits = [hit for hit in found["results"] if hit["file_id"] == citation["file_id"]]
    place = citation["antiphon"]
    (cited,) = (hit for hit in hits if hit["antiphon"]["chunk"] == place["chunk"])
    assert len(hits) > 1
    page.tab.locator(".citations button").first.click()
    source = page.tab.get_by_role("dialog")
    passage = source.get_by_role("region", name="Cited passage")
    expect(passage).to_have_count(1)
    expect(passage).to_contain_text(f"Passage {place['chunk'] + 1}, {place['label']}")
    expect(passage).to_contain_text("score")
    expect(passage.locator("pre")).to_have_text(cited["text"])
    expect(source.locator("details")).to_have_count(len(hits) - 1)
    expect(source.locator("details[open]")).to_have_count(0)
    source.get_by_role("link", name="Open the file").click()
    page.see("purpose", within=page.tab.get_by_role("dialog").last)


@pytest.mark.requirement("PAGE/playground-capabilities")
def test_the_capabilities_of_the_model_are_a_click_away(page: Opened) -> None:
    open_playground(page, "echo")
    page.button("Capabilities").click()
    table = page.tab.get_by_role("dialog", name="What echo can do")
    expect(table).to_contain_text("gpu-1")
    expect(table.get_by_role("row").filter(has_text="structured output")).to_contain_text("native")
