"""The query plans of SQLite: no statement reads more rows than its answer needs."""

import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.store.sqlite import SqliteDatabase
from antiphon.store.statements import load_statements

LISTS = (
    "ended_responses_downwards",
    "ended_responses_upwards",
    "response_of_request",
    "list_conversations",
    "list_conversations_upwards",
)
"""They look at all rows of a tenant in an index, or stop at a limit."""


@pytest.fixture
async def plans(tmp_path: Path, connections: list[sqlite3.Connection]) -> AsyncIterator[dict[str, str]]:
    """The query plan of every statement."""
    database = await SqliteDatabase.open(tmp_path / "antiphon.db")
    yield {
        name: "\n".join(
            row[-1]
            for row in connections[0].execute(
                f"EXPLAIN QUERY PLAN {text}", [None] * len(set(re.findall(r"\?\d+", text)))
            )
        )
        for name, text in load_statements("sqlite").items()
        if not text.startswith("CREATE")
    }
    await database.aclose()


def test_histories_and_pages_are_ranges_of_the_primary_key(plans: dict[str, str]) -> None:
    key = "SEARCH items USING INDEX sqlite_autoindex_items_1"
    assert plans["history_page"] == f"{key} (tenant=? AND chain=? AND pos>? AND pos<?)"
    assert plans["item_body"] == f"{key} (tenant=? AND chain=? AND pos=?)"
    for name in ("items_upwards", "items_downwards", "items_between"):
        assert plans[name] == f"{key} (tenant=? AND chain=? AND pos>? AND pos<?)"


def test_a_page_of_events_is_a_range_of_the_primary_key(plans: dict[str, str]) -> None:
    tables = [step for step in plans["event_page"].splitlines() if step.startswith("SEARCH events")]
    assert len(tables) == 3, "the rows of the page, the row to begin with, and the rows that fit"
    assert all("tenant=? AND response=? AND first" in step for step in tables), tables


def test_no_statement_scans_all_rows_of_a_tenant(plans: dict[str, str]) -> None:
    small = {"all_keys", "delete_dead_owners", "applied_migrations"}
    # of a store with a limit
    bounded = {"count_finished", "oldest_finished", "count_ended_agent_runs", "oldest_ended_agent_runs"}
    for name in plans.keys() - small - bounded:
        # The rows of a subquery that is bounded itself: `page` has a limit, `sized` is made of it; the chains
        # of a tree, `t` and `b`, have one, so have the approvals `a`, and `running` are those under way.
        parts = r"SCAN (CONSTANT ROW|a|s|t|b|tree|segments|due|busy|page|sized|running|\(subquery-\d+\))$"
        steps = re.sub(parts, "", plans[name], flags=re.MULTILINE)
        # The elements of an array that is given, and a search in the index of words.
        steps = re.sub(r"SCAN ((wanted|token|json_each) VIRTUAL TABLE.*|chunk_words .* 0:M1)", "", steps)
        # What upkeep erases, in an index of its own.
        steps = re.sub(r"SCAN \w+ USING (COVERING )?INDEX \w+_to_erase", "", steps)
        # There are few held jobs: those in progress.
        steps = re.sub("SCAN jobs USING COVERING INDEX jobs_held|SCAN jobs USING INDEX jobs_held", "", steps)
        assert "SCAN" not in steps, name
        assert "BLOOM" not in steps, f"{name}: the bloom filter reads the complete table"
        if name not in (
            "newest_responses",
            "newest_agent_runs",
            "waiting_agent_runs",
            "open_approvals",
            "trim_taken_approvals",
            *LISTS,
        ):
            usage = r"SEARCH (file|vector)_usage USING PRIMARY KEY \(tenant=\?\)"  # one row per tenant
            steps = re.sub(usage, "", steps)
            assert "(tenant=?)" not in steps, name


def test_lists_and_statistics_are_read_from_an_index_alone(plans: dict[str, str]) -> None:
    for name in LISTS[:2]:
        assert plans[name] == (
            "SEARCH responses USING COVERING INDEX responses_by_age "
            "(tenant=? AND created_at>? AND created_at<?)"
        )
    for name in ("usage_of_responses", "times_of_responses"):
        assert "COVERING INDEX responses_by_age (tenant=? AND created_at>? AND created_at<?)" in plans[name]
    assert "INDEX responses_unfinished (status=?)" in plans["unfinished_responses"]
    assert plans["response_of_request"] == (
        "SEARCH responses USING COVERING INDEX responses_by_age (tenant=?)"
    )


def test_approvals_that_wait_are_found_without_those_that_were_answered(plans: dict[str, str]) -> None:
    assert "SEARCH approvals USING INDEX approvals_waiting (tenant=?)" in plans["open_approvals"]


def test_answers_to_requests_that_are_not_stored_are_found_by_their_age(plans: dict[str, str]) -> None:
    trimmed, old = plans["trim_taken_approvals"], plans["old_taken_approvals"]
    assert "SEARCH approvals USING INDEX approvals_taken (tenant=?)" in trimmed
    assert "SORT" not in trimmed + old
    assert "SEARCH approvals USING INDEX approvals_taken_by_age (created_at<?)" in old
