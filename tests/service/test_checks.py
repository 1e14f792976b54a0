"""Checks on behalf of tenants: where they run, what happens beyond the limits, whose verdicts are remembered."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from antiphon.errors import InvalidRequest, Overloaded
from antiphon.isolated.frames import Excess
from antiphon.isolated.pool import IsolatedPool, WorkExceeded
from antiphon.protocol.content import JsonObject
from antiphon.protocol.definitions import Definition, Definitions
from antiphon.protocol.requests import TextFormat
from antiphon.protocol.tools import TextFormatGrammar
from antiphon.service import checks as checks_module
from antiphon.service.checks import MAX_VERDICTS_PER_TENANT, Checks
from antiphon.turn.checks import Check, CheckSteps, GrammarCheck, JsonCheck
from antiphon.turn.json_answer import Answer, Fault

HOSTILE_REGEX = "a?" * 16_000
GRAMMAR = TextFormatGrammar("grammar", "regex", "[a-z]+")
NUMBERS = TextFormat(type="json_schema", name="n", schema={"type": "array", "items": {"type": "integer"}})


class CountingPool(IsolatedPool):
    """Counts its jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.tenants: list[str] = []

    async def run(self, tenant: str, function: str, *payload: bytes, goes_first: bool = False) -> memoryview:
        """Run and count."""
        self.tenants.append(tenant)
        return await super().run(tenant, function, *payload, goes_first=goes_first)


class ExceedingPool(IsolatedPool):
    """Every job needs too much."""

    def __init__(self, reason: Excess = "cpu") -> None:
        super().__init__()
        self.reason: Excess = reason

    async def run(self, tenant: str, function: str, *payload: bytes, goes_first: bool = False) -> memoryview:
        """Exceed."""
        raise WorkExceeded(self.reason)


@pytest.fixture
async def pool() -> AsyncGenerator[CountingPool, None]:
    made = CountingPool()
    yield made
    await made.aclose()


def regex(text: str, path: str = "tools[0].format.definition") -> Definition:
    return Definition(path, "regex", text)


def asked(checks: Sequence[Check]) -> CheckSteps[Sequence[Answer | Fault]]:
    return (yield checks)


async def refusal(checks: Checks, *definitions: Definition) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        await checks.definitions("t", definitions)
    return caught.value


async def test_a_definition_is_examined_once_for_each_tenant(pool: CountingPool) -> None:
    checks = Checks(pool)
    for tenant in ("a", "a", "b", "a", "b"):
        await checks.definitions(tenant, [regex("a+"), regex("b+")])
    assert pool.tenants == ["a", "b"]
    await checks.definitions("a", [regex("b+"), regex("c+")])
    assert pool.tenants == ["a", "b", "a"]
    await checks.definitions("a", [])
    assert len(pool.tenants) == 3


async def test_an_invalid_grammar_is_rejected_where_it_stands(pool: CountingPool) -> None:
    checks = Checks(pool)
    for path in ("tools[3].format.definition", "tools[7].format.definition"):
        error = await refusal(checks, regex("a+"), regex("a(", path))
        assert (error.status, error.param, error.code) == (400, path, "invalid_grammar")
        assert "unclosed group" in error.message
    assert len(pool.tenants) == 1


async def test_a_grammar_that_takes_too_much_is_rejected_and_remembered(pool: CountingPool) -> None:
    checks = Checks(pool)
    definition = regex(HOSTILE_REGEX)
    for _ in range(2):
        error = await refusal(checks, definition)
        assert (error.status, error.code) == (400, "invalid_grammar")
        assert len(error.message) < 400
    assert len(pool.tenants) == 1


async def test_definitions_that_take_too_much_are_rejected() -> None:
    checks = Checks(ExceedingPool())
    assert "it takes too much time or memory" in (await refusal(checks, regex("a"))).message
    together = await refusal(Checks(ExceedingPool()), regex("a"), regex("b"))
    assert "schemas and grammars of this request take too much" in together.message
    definitions = Definitions()
    definitions.schema({"description": "d" * 100_000}, "text.format.schema")
    error = await refusal(checks, *definitions.unchecked)
    assert error.message.startswith("The schema at 'text.format.schema' is too complex: it takes too much")


@pytest.mark.parametrize("reason", ["time", "crash"])
async def test_what_may_be_no_fault_of_the_request_is_not_remembered(
    pool: CountingPool, reason: Excess, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = Checks(pool)
    monkeypatch.setattr(pool, "run", ExceedingPool(reason).run)
    with pytest.raises(Overloaded) as caught:
        await checks.definitions("t", [regex("a")])
    assert "could not be checked in time" in caught.value.message
    monkeypatch.undo()
    await checks.definitions("t", [regex("a")])


async def test_verdicts_are_bounded(pool: CountingPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_module, "MAX_VERDICTS_PER_TENANT", 2)
    monkeypatch.setattr(checks_module, "MAX_TENANTS", 2)
    checks = Checks(pool)
    await checks.definitions("a", [regex("a"), regex("b"), regex("c")])
    await checks.definitions("a", [regex("c"), regex("b")])
    assert len(pool.tenants) == 1
    await checks.definitions("a", [regex("a")])
    assert len(pool.tenants) == 2
    for tenant in ("b", "c", "b", "a"):
        await checks.definitions(tenant, [regex("b")])
    assert pool.tenants[2:] == ["b", "c", "a"]
    assert MAX_VERDICTS_PER_TENANT > 2


async def test_rejections_are_bounded_too(pool: CountingPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_module, "MAX_VERDICTS_PER_TENANT", 1)
    checks = Checks(pool)
    for text in ("a(", "b(", "a("):
        await refusal(checks, regex(text))
    assert len(pool.tenants) == 3


async def test_a_verdict_that_is_displaced_meanwhile_still_counts(
    pool: CountingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks_module, "MAX_VERDICTS_PER_TENANT", 1)
    checks = Checks(pool)
    await checks.definitions("t", [regex("a")])
    await asyncio.gather(
        checks.definitions("t", [regex("a"), regex("b")]), checks.definitions("t", [regex("c"), regex("d")])
    )


async def test_what_is_too_expensive_together_is_not_remembered(
    pool: CountingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = Checks(pool)
    monkeypatch.setattr(pool, "run", ExceedingPool().run)
    await refusal(checks, regex("a"), regex("b"))
    monkeypatch.undo()
    await checks.definitions("t", [regex("a"), regex("b")])


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"items": {"pattern": "^(?:a|a)*(?!a)b"}}, '["aaaaaaaaaaaa"]'),
        ({"items": {"enum": [[number] for number in range(2000)]}}, "[" + "[]," * 2000 + "[]]"),
        ({"type": "object"}, "[0," * 32 + "{}," * 2000),
    ],
    ids=["pattern", "enum", "search"],
)
async def test_what_is_not_provably_cheap_runs_in_a_child(
    pool: CountingPool, schema: JsonObject, text: str
) -> None:
    Definitions().schema(schema, "text.format.schema")
    form = TextFormat(type="json_schema", name="n", schema=schema)
    await Checks(pool).run("t", asked([JsonCheck(text, form)]))
    assert pool.tenants == ["t"]


async def test_a_cheap_check_runs_at_once(pool: CountingPool) -> None:
    assert isinstance(NUMBERS.schema, dict)
    Definitions().schema(NUMBERS.schema, "text.format.schema")
    found = await Checks(pool).run("t", asked([JsonCheck("[1]", NUMBERS), JsonCheck("[true]", NUMBERS)]))
    assert found == [Answer("[1]"), Fault("At '[0]': true is not of type \"integer\".", "[0]")]
    assert not pool.tenants


@pytest.mark.parametrize(
    "check",
    [
        GrammarCheck("abc", GRAMMAR),
        JsonCheck(f"[{'1,' * 40_000}1]", NUMBERS),
        JsonCheck("[1]", TextFormat(type="json_schema", name="n", schema={"title": "not known to be cheap"})),
    ],
    ids=["grammar", "long", "unknown schema"],
)
async def test_other_checks_run_in_a_child(pool: CountingPool, check: Check) -> None:
    assert await Checks(pool).run("t", asked([check])) == [Answer(check.text)]
    assert pool.tenants == ["t"]


async def test_the_check_of_an_answer_waits_for_its_turn(pool: CountingPool) -> None:
    checks = Checks(pool)
    found = await asyncio.gather(*(checks.run("t", asked([GrammarCheck("abc", GRAMMAR)])) for _ in range(30)))
    assert found == [[Answer("abc")]] * 30


async def test_faults_come_back_from_a_child(pool: CountingPool) -> None:
    given = [GrammarCheck("abc", GRAMMAR), GrammarCheck("ABC", GRAMMAR)]
    right, wrong = await Checks(pool).run("t", asked(given))
    assert right == Answer("abc")
    assert isinstance(wrong, Fault)
    assert "At line 1, column 1" in wrong.why
    assert len(pool.tenants) == 1


async def test_an_answer_that_takes_too_much_to_check_is_a_fault() -> None:
    found = await Checks(ExceedingPool()).run("t", asked([GrammarCheck("abc", GRAMMAR)] * 2))
    assert [isinstance(each, Fault) and "too much time or memory" in each.why for each in found] == [
        True,
        True,
    ]
