"""Statements are written once and rendered in two dialects."""

import re

from antiphon.store.statements import INDEXED_DIMENSIONS, load_statements


def test_both_dialects_have_the_same_statements() -> None:
    """PostgreSQL has more, which search in vectors."""
    sqlite, postgres = load_statements("sqlite").keys(), load_statements("postgres").keys()
    assert sqlite - postgres == set()
    assert {re.sub(r"_\d+$", "", name) for name in postgres - sqlite} == {
        *("vectors_are_kept", "set_vector_search", "set_graph_search", "similarities_of_chunks"),
        *("nearest", "nearest_in_files", "nearest_by_graph", "nearest_outside_graph"),
    }


def test_sqlite_gets_its_own_parameters_casts_and_clock() -> None:
    text = load_statements("sqlite")["lock_conversation"]
    assert "$" not in text
    assert "::" not in text
    assert "locked_until = steady_now() + ?4" in text


def test_postgresql_gets_them_as_they_are() -> None:
    text = load_statements("postgres")["lock_conversation"]
    assert "clock_timestamp()" in text
    assert "$4::float8" in text


def test_no_statement_has_a_comment_or_a_second_one_in_it() -> None:
    for text in load_statements("postgres").values():
        assert "--" not in text
        assert ";" not in text
        assert "{" not in text
        numbers = {int(number) for number in re.findall(r"\$(\d+)", text)}
        assert numbers == set(range(1, len(numbers) + 1)), "no parameter is left out"


def test_every_statement_filters_by_tenant_or_is_listed_as_exempt() -> None:
    """Keys, owners, migrations and upkeep belong to the operator, jobs are claimed for all tenants, and the
    keys of objects are random; the number of a set of chunks was read from a row of the tenant. All other
    statements must filter by tenant.
    """
    global_statements = {
        *("add_key", "all_keys", "revoke_key", "delete_key"),
        *("add_seal_key", "find_seal_key", "replace_seal_key"),
        *("beat", "delete_owner", "claim_jobs", "claim_tenant_job", "look_for_jobs", "held_jobs"),
        *("lapsed_jobs", "free_lapsed_jobs", "release_jobs"),
        *(
            "old_traces",
            "old_taken_approvals",
            "expired_responses",
            "count_finished",
            "oldest_finished",
            "old_logs",
            "delete_dead_owners",
            "first_jobs",
        ),
        *("expired_agent_runs", "count_ended_agent_runs", "oldest_ended_agent_runs"),
        *("expired_files", "lapsed_uploads", "old_uploads", "add_unreferenced_object", "refer_to_object"),
        *("due_objects", "make_object_due", "forget_object"),
        *("add_object_piece", "object_piece", "delete_object"),
        *(
            "expired_vector_stores",
            "vector_stores_to_erase",
            "chunk_sets_to_erase",
            "first_portions",
            "delete_chunk_set",
        ),
        *("add_chunk_set", "erase_chunk_set", "take_slots", "add_portion", "add_chunk", "portions_of_file"),
        *("erase_portion", "erase_chunks", "erase_vectors", "chunks_of_file", "postings", "add_vectors"),
        "vectors_of_portions",
        *("vectors_are_kept", "set_vector_search", "set_graph_search", "similarities_of_chunks"),
        *(
            "nearest",
            "nearest_in_files",
            "nearest_outside_graph",
            *(f"nearest_by_graph_{each}" for each in INDEXED_DIMENSIONS),
        ),
        *("create_migrations_table", "applied_migrations", "record_migration"),
    }
    for name, text in load_statements("postgres").items():
        inserted = text.startswith("INSERT") and re.search(r"\((kind, |\n    )?tenant,", text) is not None
        named = inserted or re.search(r"\btenant = \$\d\b", text) is not None
        assert named is not (name in global_statements), name
