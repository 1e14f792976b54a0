"""Checks of bad input: the status, and an error object with message, type, param and code."""

from antiphon.conformance.probe import Probe, check, expect_error
from antiphon.conformance.reading import object_at
from antiphon.conformance.results import Skipped, expect

INVALID = (400, 422)
MISSING = (400, 404)
NESTING_DEPTH = 20_000


@check("errors.json", "A body that is not JSON is refused", rule="errors-json")
async def bad_json(probe: Probe) -> None:
    expect_error(await probe.send("POST", "responses", b'{"model": "m", "input'), *INVALID)


@check("errors.not_an_object", "A body that is not an object is refused", rule="errors-json")
async def not_an_object(probe: Probe) -> None:
    expect_error(await probe.send("POST", "responses", b"[1, 2]"), *INVALID)


@check("errors.nested", "A deeply nested body is refused", rule="errors-json")
async def nested(probe: Probe) -> None:
    expect_error(await probe.send("POST", "responses", b'{"input":' + b"[" * NESTING_DEPTH), *INVALID, 413)


@check("errors.model_missing", "A request without a model is refused", rule="errors-required")
async def no_model(probe: Probe) -> None:
    expect_error(await probe.send("POST", "responses", {"input": "Hello"}), *INVALID)


@check("errors.input_missing", "A request without input is refused", rule="errors-required")
async def no_input(probe: Probe) -> None:
    expect_error(await probe.send("POST", "responses", {"model": probe.target.model}), *INVALID)


@check("errors.model_unknown", "An unknown model is refused", rule="errors-model")
async def unknown_model(probe: Probe) -> None:
    answer = await probe.send("POST", "responses", {"model": "nobody-knows-this-model", "input": "Hello"})
    expect_error(answer, *MISSING)


@check("errors.type", "A member of the wrong type is refused", rule="errors-type")
async def wrong_type(probe: Probe) -> None:
    expect_error(await probe.ask(input=17), *INVALID)
    expect_error(await probe.ask(input="Hello", max_output_tokens="many"), *INVALID)


@check("errors.range", "A value out of range is refused", rule="errors-range")
async def out_of_range(probe: Probe) -> None:
    expect_error(await probe.ask(input="Hello", temperature=99), *INVALID)


@check("errors.item", "An unknown item type is refused", rule="errors-item")
async def unknown_item(probe: Probe) -> None:
    expect_error(await probe.ask(input=[{"type": "nobody_knows_this_item"}]), *INVALID)


@check("errors.role", "An unknown role is refused", rule="errors-item")
async def unknown_role(probe: Probe) -> None:
    expect_error(await probe.ask(input=[{"role": "nobody", "content": "Hello"}]), *INVALID)


@check("errors.stream", "A bad request for a stream is refused as JSON", rule="errors-before-stream")
async def before_stream(probe: Probe) -> None:
    expect_error(await probe.ask(input=17, stream=True), *INVALID)


@check("errors.previous", "An unknown previous_response_id is refused", rule="errors-previous")
async def unknown_previous(probe: Probe) -> None:
    expect_error(await probe.ask(input="Hello", previous_response_id="resp_nobody"), *MISSING)


@check("errors.response", "An unknown response is not found", rule="errors-response")
async def unknown_response(probe: Probe) -> None:
    expect_error(await probe.send("GET", "responses/resp_nobody"), 404)
    expect_error(await probe.send("DELETE", "responses/resp_nobody"), 404)


@check("errors.route", "An unknown path is not found", rule="errors-route")
async def unknown_route(probe: Probe) -> None:
    expect_error(await probe.send("GET", "nobody_knows_this_path"), 404)


@check("errors.method", "A wrong method is refused", rule="errors-method")
async def wrong_method(probe: Probe) -> None:
    expect_error(await probe.send("PUT", "responses", {"model": probe.target.model}), 404, 405)


@check("errors.key", "A wrong key is refused", rule="errors-key")
async def wrong_key(probe: Probe) -> None:
    if not probe.target.has_key:
        raise Skipped("no key was given")
    wrong = {"authorization": "Bearer sk-nobody-has-this-key"}
    answer = await probe.send("GET", "models", headers=wrong)
    if answer.status == 200:
        raise Skipped("this server accepts any key")
    expect_error(answer, 401, 403)


@check("errors.members", "An error has message, type, param and code", rule="errors-object")
async def members(probe: Probe) -> None:
    unknown = {"model": "nobody-knows-this-model", "input": "Hello"}
    refusals = [
        await probe.send("POST", "responses", b"{"),
        await probe.send("POST", "responses", unknown),
        await probe.send("GET", "responses/resp_nobody"),
    ]
    for answer in refusals:
        error = object_at(answer.json, "error")
        for name in ("message", "type", "param", "code"):
            expect(name in error, f"the error object of a {answer.status} has no `{name}`")


@check("errors.request_id", "Every answer has a request id", rule="errors-request-id")
async def request_id(probe: Probe) -> None:
    answer = await probe.send("GET", "responses/resp_nobody")
    expect(answer.headers.get("x-request-id"), "there is no header x-request-id")


CHECKS = (
    bad_json, not_an_object, nested, no_model, no_input, unknown_model, wrong_type, out_of_range,
    unknown_item, unknown_role, before_stream, unknown_previous, unknown_response, unknown_route,
    wrong_method, wrong_key, members,
    request_id,
)  # fmt: skip
