"""The schemas and grammars of a request. A small one can take minutes to compile, so each is bounded before.

`Definitions` collects those of one request. It checks cheap schemas at once, within a budget for the whole
request. The others, and all grammars, are left in `unchecked`: the service has them examined in a child
process before anything else happens with the request.
"""

from collections import OrderedDict
from typing import Literal

import jsonschema_rs
import msgspec
from msgspec import Struct, UnsetType

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.extras import install_command
from antiphon.grammars.grammar import (
    MAX_DEFINITION_CHARACTERS,
    compile_definition,
    grammars_installed,
)
from antiphon.grammars.lark import InvalidGrammar
from antiphon.protocol.bounds import check_nesting
from antiphon.protocol.content import JsonObject
from antiphon.protocol.parse import missing
from antiphon.protocol.schema_bounds import (
    MAX_SCHEMA_BYTES,
    SchemaCost,
    TooComplex,
    TooManySteps,
    schema_cost,
)
from antiphon.protocol.tools import TextFormatGrammar

MAX_SCHEMAS_BYTES = 4 * 1024 * 1024
"""Of all schemas of a request."""
MAX_GRAMMARS = 64
MAX_GRAMMARS_CHARACTERS = 4 * MAX_DEFINITION_CHARACTERS
"""Of all grammars of a request."""
CHEAP_SCHEMA_BYTES = 65_536
CHEAP_SCHEMAS_BYTES = 524_288
"""Of all schemas of a request that are checked at once. A byte takes 20 ns."""
CHEAP_STEPS = 1000
"""Of the analysis of all schemas of a request that are checked at once. A step takes 5 us."""
CHEAP_PATTERN_COPIES = 250
"""A copy takes 5 us, and 2 kB, when a pattern is compiled."""
_MAX_VERDICTS_BYTES = 4 * 1024 * 1024

_INVALID = (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, RecursionError)
_VERDICT_BYTES = 200
"""What a remembered cost takes besides its schema."""
_MAX_REASON_CHARACTERS = 300
_DRAFTS = frozenset(
    f"{scheme}://json-schema.org/{draft}"
    for scheme in ("http", "https")
    for draft in (
        "schema",
        "draft-04/schema",
        "draft-06/schema",
        "draft-07/schema",
        "draft/2019-09/schema",
        "draft/2020-12/schema",
    )
)

Syntax = Literal["json_schema", "lark", "regex"]


class Definition(Struct, frozen=True):
    """A schema, encoded, or a grammar. `path` is the parameter that holds it."""

    path: str
    syntax: Syntax
    text: str


class Rejection(Struct, frozen=True):
    """Why a definition is not accepted, as a part of a sentence."""

    why: str
    is_complex: bool = False
    """Whether it is too expensive; otherwise it is not valid."""

    def error(self, definition: Definition) -> InvalidRequest:
        """The error of the request that holds the definition."""
        path = definition.path
        if definition.syntax != "json_schema":
            what = "Lark grammar" if definition.syntax == "lark" else "regular expression"
            message = f"'{path}' is not a {what} that is accepted here: {self.why}."
            return InvalidRequest(message, param=path, code="invalid_grammar")
        if self.is_complex:
            message = f"The schema at '{path}' is too complex: {self.why}."
        else:
            message = f"Invalid schema for '{path}': it is not a valid JSON Schema ({self.why})."
        return InvalidRequest(message, param=path, code="invalid_json_schema")


_DEFINITIONS = msgspec.msgpack.Decoder(list[Definition])


class Definitions:
    """The definitions of one request."""

    _schemas_bytes = 0
    _cheap_bytes = CHEAP_SCHEMAS_BYTES
    _cheap_steps = CHEAP_STEPS
    _grammars = 0
    _grammars_characters = 0

    unchecked: tuple[Definition, ...] = ()
    """Those that are still to be examined."""

    def schema(self, schema: JsonObject, path: str) -> None:
        """Reject an invalid JSON Schema, and one that is too expensive; or leave it unchecked."""
        check_nesting(schema, path)
        encoded = msgspec.json.encode(schema)
        if len(encoded) > MAX_SCHEMA_BYTES:
            why = f"it has {len(encoded)} bytes, and at most {MAX_SCHEMA_BYTES} are accepted"
            raise Rejection(why, is_complex=True).error(Definition(path, "json_schema", ""))
        self._schemas_bytes += len(encoded)
        if self._schemas_bytes > MAX_SCHEMAS_BYTES:
            message = (
                f"The schemas of this request have more than {MAX_SCHEMAS_BYTES} bytes in all. Send fewer."
            )
            raise InvalidRequest(message, param=path, code="invalid_json_schema")
        if len(encoded) <= min(CHEAP_SCHEMA_BYTES, self._cheap_bytes):
            self._cheap_bytes -= len(encoded)
            checked = _VERDICTS.get(encoded) or _checked(encoded, schema, self._cheap_steps)
            if isinstance(checked, Rejection):
                raise checked.error(Definition(path, "json_schema", ""))
            if isinstance(checked, SchemaCost):
                self._cheap_steps -= _VERDICTS.add(encoded, checked)
                return
            self._cheap_steps = 0
        self.unchecked += (Definition(path, "json_schema", encoded.decode()),)

    def grammar(self, form: TextFormatGrammar, path: str) -> None:
        """Check the format of a custom tool, except whether its grammar compiles."""
        if form.type == "text":
            return
        if isinstance(form.syntax, UnsetType):
            raise missing(f"{path}.syntax", "Use 'lark' or 'regex'.")
        if isinstance(form.definition, UnsetType):
            raise missing(f"{path}.definition")
        if not grammars_installed():
            message = f"Grammars need a library that is not installed here: {install_command('grammars')}"
            raise Unsupported(message, param=f"{path}.type", code="unsupported_grammar")
        definition = Definition(f"{path}.definition", form.syntax, form.definition)
        self._grammars += 1
        self._grammars_characters += len(form.definition)
        if self._grammars > MAX_GRAMMARS or self._grammars_characters > MAX_GRAMMARS_CHARACTERS:
            why = (
                f"all grammars of a request may have {MAX_GRAMMARS_CHARACTERS} characters, and there may be "
                f"{MAX_GRAMMARS} of them"
            )
            raise Rejection(why).error(definition)
        self.unchecked += (definition,)


def examine(definition: Definition) -> Rejection | None:
    """Check a definition, however long that takes; None if it is accepted."""
    if definition.syntax == "json_schema":
        encoded = definition.text.encode()
        found = _checked(encoded, msgspec.json.decode(encoded))
        return found if isinstance(found, Rejection) else None
    try:
        compile_definition(definition.syntax, definition.text)
    except InvalidGrammar as error:
        return Rejection(f"{error.why} in line {error.line}" if error.line else error.why)
    return None


def examine_encoded(encoded: bytes) -> bytes:
    """The same for a list, as one job of a child process."""
    return msgspec.msgpack.encode([examine(definition) for definition in _DEFINITIONS.decode(encoded)])


def known_cost(encoded: bytes) -> SchemaCost | None:
    """The cost of a schema that was found to be cheap lately."""
    return _VERDICTS.get(encoded)


def check_schema(schema: JsonObject, path: str) -> None:
    """Reject an invalid JSON Schema, and one that is too expensive to check answers with."""
    definition = Definition(path, "json_schema", msgspec.json.encode(schema).decode())
    rejection = examine(definition)
    if rejection is not None:
        raise rejection.error(definition)


def _checked(
    encoded: bytes, schema: JsonObject, max_steps: int | None = None
) -> SchemaCost | Rejection | None:
    """The cost of a valid schema; None if it is not known within these steps."""
    try:
        cost = schema_cost(encoded) if max_steps is None else schema_cost(encoded, max_steps)
    except TooManySteps as error:
        return Rejection(str(error), is_complex=True) if max_steps is None else None
    except TooComplex as error:
        return Rejection(str(error), is_complex=True)
    if max_steps is not None and cost.pattern_copies > CHEAP_PATTERN_COPIES:
        return None
    draft: object = schema.get("$schema")
    if draft is not None and (not isinstance(draft, str) or draft.rstrip("#") not in _DRAFTS):
        return Rejection("'$schema' must be one of the drafts 4, 6, 7, 2019-09 and 2020-12")
    try:
        jsonschema_rs.meta.validate(schema)  # it fetches a '$schema' that it does not know
    except _INVALID as error:
        return Rejection(str(error).partition("\n")[0][:_MAX_REASON_CHARACTERS])
    return cost


class _Verdicts:
    """The costs of schemas that were accepted lately. They depend on nothing but the schema, so all tenants
    share them."""

    def __init__(self) -> None:
        self._costs: OrderedDict[bytes, SchemaCost] = OrderedDict()
        self._bytes = 0

    def get(self, encoded: bytes) -> SchemaCost | None:
        """The cost of a schema, if it is known."""
        return self._costs.get(encoded)

    def add(self, encoded: bytes, cost: SchemaCost) -> int:
        """Remember a cost; how many steps it took to find it out now."""
        known = encoded in self._costs
        self._costs[encoded] = cost
        self._costs.move_to_end(encoded)
        if known:
            return 0
        self._bytes += len(encoded) + _VERDICT_BYTES
        while self._bytes > _MAX_VERDICTS_BYTES:
            self._bytes -= len(self._costs.popitem(last=False)[0]) + _VERDICT_BYTES
        return cost.steps


_VERDICTS = _Verdicts()
