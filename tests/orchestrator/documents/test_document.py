"""Documents as text: several styles are read, one is written."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.documents.document import SECTIONS, DesignDocument, blank_body, parse
from antiphon.orchestrator.documents.status import Status

NAME = "AGN-004 - Result Mapping.md"
DOCUMENT = DesignDocument(
    tla="AGN",
    number=4,
    title="Result Mapping",
    status=Status.PROPOSED,
    domain="Orchestrator",
    owner="Ada",
    tags=("mapping", "tools"),
    body="## Objective\n\nMap results.",
)


def test_a_document_is_written_in_the_form_of_agn_001() -> None:
    assert DOCUMENT.render() == (
        "### AGN-004\n"
        "**Title:** Result Mapping  \n"
        "**Status:** Proposed  \n"
        "**Domain:** Orchestrator  \n"
        "**Owner:** Ada  \n"
        "**Tags:** mapping, tools  \n"
        "\n---\n\n"
        "## Objective\n\nMap results.\n"
    )
    assert parse(DOCUMENT.render(), NAME) == DOCUMENT


lines = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"))
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r:*")).filter(
    lambda name: name.strip() and name.strip().lower() not in {"title", "status", "domain", "owner", "tags"}
)
documents = st.builds(
    DesignDocument,
    tla=st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=3, max_size=3),
    number=st.integers(1, 999_999_999),
    title=lines.filter(str.strip),
    status=st.sampled_from(Status),
    domain=lines,
    owner=lines,
    tags=st.lists(lines).map(tuple),
    further=st.lists(st.tuples(names, lines)).map(tuple),
    body=st.one_of(
        st.text(st.characters(exclude_categories=["Cs"])),
        st.lists(st.sampled_from(["---", "### AGN-004", "**Status:** No", "", " x", "\t", "\r"])).map(
            "\n".join
        ),
    ),
)


@given(documents)
def test_a_written_document_is_read_back(document: DesignDocument) -> None:
    assert parse(document.render(), document.file_name) == document


def test_the_first_style_of_the_wild_is_read() -> None:
    text = (
        "# **AGN-004**  \n**Title:** Result Mapping  \n**Status:** Proposed  \n**Domain:** Orchestrator  \n"
        "**Owner:** Ada  \n**Tags:** mapping, tools  \n\n---\n\n## Objective\n\nMap results.\n"
    )
    assert parse(text, NAME) == DOCUMENT


def test_the_second_style_is_read_and_its_extra_lines_are_preserved() -> None:
    text = (
        "# AGN-004 — Another Title\n\n**Owner:** Ada  \n**Status:** accepted  \n**Title:** Result Mapping  \n"
        "**Version:** 1.2  \n**Namespace:** A.B  \n\n---\n\n## 1. Purpose\n"
    )
    document = parse(text, NAME)
    assert (document.title, document.status, document.owner) == ("Result Mapping", Status.ACCEPTED, "Ada")
    assert document.further == (("Version", "1.2"), ("Namespace", "A.B"))
    assert document.body == "## 1. Purpose"
    assert "**Version:** 1.2  \n**Namespace:** A.B  \n" in document.render()


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# AGN-004 — From the heading\n**Status:** Proposed", "From the heading"),
        ("# **AGN-004: From the heading**\n**Status:** Proposed", "From the heading"),
        ("## AGN-0004 From the heading\n**Status**: Proposed", "From the heading"),
        ("### AGN-004\n**Status :** Proposed", "Result Mapping"),
        ("\ufeff\r\n\r\n**Status:** Proposed\r\n", "Result Mapping"),
        ("### AGN-004\n**title:** Lower\n\n\n**STATUS:** Proposed", "Lower"),
    ],
)
def test_a_header_is_read_liberally(text: str, title: str) -> None:
    document = parse(text, NAME)
    assert (document.id, document.title, document.body) == ("AGN-004", title, "")


def test_a_header_without_a_rule_ends_where_the_text_begins() -> None:
    assert parse("### AGN-004\n**Status:** Proposed\n\nText.\n**Not:** a header", NAME).body == (
        "Text.\n**Not:** a header"
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no line '**Status:** …'"),
        ("### AGN-004\nNo header.", "no line '**Status:** …'"),
        ("### AGN-004\n**Status:** Draft", "'Draft' is not a status"),
        ("### AGN-005\n**Status:** Proposed", "has the id AGN-004, but its heading has AGN-005"),
        ("### AGN-004\n**Status:** Proposed\n**Status:** Accepted", "twice"),
    ],
)
def test_unparsable_text_is_a_damaged_document(text: str, complaint: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(text, NAME)
    assert caught.value.code == "damaged_document"
    assert caught.value.message.startswith(f"'{NAME}' is damaged: ")
    assert complaint in caught.value.message


def test_an_invalid_document_name_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="not of the form"):
        parse(DOCUMENT.render(), "notes.md")


@given(st.text(), st.sampled_from([NAME, "notes.md"]))
def test_any_text_is_read_or_rejected(text: str, name: str) -> None:
    try:
        parse(f"### AGN-004\n**Status:** Proposed\n{text}", name)
    except InvalidRequest as error:
        assert error.code == "damaged_document"


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("title", "  ", "title"),
        ("title", "two\nlines", "title"),
        ("title", "two\rlines", "title"),
        ("title", "half \ud800", "title"),
        ("domain", "two\nlines", "domain"),
        ("owner", "two\nlines", "owner"),
        ("tags", ("two\nlines",), "tags"),
        ("body", "half \ud800", "markdownBody"),
        ("tla", "agn", "id"),
        ("number", 0, "id"),
        ("number", 10**9, "id"),
        ("further", (("Status", "x"),), "further"),
        ("further", (("a:b", "x"),), "further"),
        ("further", (("a*b", "x"),), "further"),
        ("further", ((" ", "x"),), "further"),
    ],
)
def test_text_that_cannot_be_stored_is_rejected(field: str, value: object, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        msgspec.structs.replace(DOCUMENT, **{field: value})
    assert caught.value.param == param


def test_the_title_in_the_header_is_stored_verbatim() -> None:
    document = msgspec.structs.replace(DOCUMENT, title="../What? Why: a/b")
    assert document.file_name == "AGN-004 - -What- Why- a-b.md"
    assert parse(document.render(), document.file_name).title == "../What? Why: a/b"


def test_tags_with_commas_are_several_tags() -> None:
    assert msgspec.structs.replace(DOCUMENT, tags=("a, b", " c ", ",")).tags == ("a", "b", "c")


def test_a_new_body_has_the_six_sections_in_order() -> None:
    assert blank_body().split("\n\n") == [f"## {section}" for section in SECTIONS]
    assert SECTIONS[0] == "Objective"
    assert SECTIONS[-1] == "Notes/Rationale"


def test_long_blank_lines_are_parsed_in_linear_time() -> None:
    blanks = " " * 300_000
    with pytest.raises(InvalidRequest):
        parse(f"# AGN-004 -{blanks}x{blanks}\n**{blanks}x\n**a{blanks}b:{blanks}", NAME)
