-- Every statement of the SQL store, for SQLite and PostgreSQL. `statements.py` says how they are read.

-- Chains: where items are

-- name: start_chain
INSERT INTO chains (tenant, id, parent_chain, parent_pos, head_pos, named) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING RETURNING id;

-- name: advance_chain
-- The one compare-and-set of the append rule.
UPDATE chains SET head_pos = head_pos + $3 WHERE tenant = $1 AND id = $2 AND head_pos = $4 AND named = 0
RETURNING id;

-- name: advance_conversation
UPDATE chains SET head_pos = head_pos + $3 WHERE tenant = $1 AND id = $2 AND named = 1 RETURNING head_pos;

-- name: lock_chain
-- Changes nothing: others that change this chain wait for the end of the transaction.
UPDATE chains SET head_pos = head_pos WHERE tenant = $1 AND id = $2 RETURNING parent_chain, named, head_pos;

-- name: move_head
UPDATE chains SET head_pos = head_pos + 1 WHERE tenant = $1 AND id = $2 RETURNING head_pos;

-- name: unname_chain
UPDATE chains SET named = 0 WHERE tenant = $1 AND id = $2;

-- name: delete_chain
DELETE FROM chains WHERE tenant = $1 AND id = $2;

-- name: needed_until
SELECT
    (SELECT max(end_pos) FROM responses WHERE tenant = $1 AND chain = $2),
    (SELECT max(parent_pos) FROM chains WHERE tenant = $1 AND parent_chain = $2);

-- name: path
-- The parts of chains that a history runs through, newest first.
WITH RECURSIVE segments (chain, lim, depth) AS (
    SELECT $2::text, $3::bigint, 0
    UNION ALL
    SELECT c.parent_chain, c.parent_pos, s.depth + 1
    FROM segments s JOIN chains c ON c.tenant = $1 AND c.id = s.chain
    WHERE c.parent_chain IS NOT NULL
)
SELECT chain, lim FROM segments ORDER BY depth;

-- Items

-- name: add_item
INSERT INTO items (tenant, chain, pos, id, response, type, body, private) VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: history_page
-- What of one chain belongs to a history that leaves the chain at $3, behind $4. A body of more than $6 bytes is
-- NULL: it is read by itself.
SELECT type, CASE WHEN octet_length(body) <= $6 THEN body END, private, pos FROM items
WHERE tenant = $1 AND chain = $2 AND pos < $3 AND pos > $4 AND (hidden_from IS NULL OR hidden_from >= $3)
ORDER BY pos LIMIT $5;

-- name: item_body
SELECT body FROM items WHERE tenant = $1 AND chain = $2 AND pos = $3;

-- name: items_between
SELECT type, body FROM items WHERE tenant = $1 AND chain = $2 AND pos >= $3 AND pos < $4 ORDER BY pos;

-- name: items_upwards
SELECT type, body FROM items
WHERE tenant = $1 AND chain = $2 AND pos > $3 AND pos < $4 AND (hidden_from IS NULL OR hidden_from >= $5)
ORDER BY pos LIMIT $6;

-- name: items_downwards
SELECT type, body FROM items
WHERE tenant = $1 AND chain = $2 AND pos > $3 AND pos < $4 AND (hidden_from IS NULL OR hidden_from >= $5)
ORDER BY pos DESC LIMIT $6;

-- name: places_of_item
SELECT chain, pos, hidden_from FROM items WHERE tenant = $1 AND id = $2;

-- name: find_item
-- Of a response that is there, or in a conversation that is there. An id may come back: the newest counts.
SELECT i.type, i.body, i.private FROM items i
LEFT JOIN responses r
    ON r.tenant = i.tenant AND r.id = i.response AND (r.expires_at IS NULL OR r.expires_at > $3)
LEFT JOIN conversations c ON c.tenant = i.tenant AND c.id = i.chain AND i.hidden_from IS NULL
WHERE i.tenant = $1 AND i.id = $2 AND (r.id IS NOT NULL OR c.id IS NOT NULL)
ORDER BY coalesce(r.created_at, 0) DESC, i.pos DESC LIMIT 1;

-- name: conversation_item
SELECT pos, type, body FROM items WHERE tenant = $1 AND chain = $2 AND id = $3 AND hidden_from IS NULL
ORDER BY pos DESC LIMIT 1;

-- name: hide_item
UPDATE items SET hidden_from = $4 WHERE tenant = $1 AND chain = $2 AND pos = $3;

-- name: erase_hidden_items
DELETE FROM items WHERE tenant = $1 AND chain = $2 AND pos >= $3 AND hidden_from IS NOT NULL;

-- name: erase_items
DELETE FROM items WHERE tenant = $1 AND chain = $2 AND pos >= $3 RETURNING pos;

-- Responses

-- name: add_response
INSERT INTO responses (
    tenant, id, chain, start_pos, output_pos, end_pos, parent, conversation, status, body,
    input, request, created_at, expires_at, next_event, sealed_tools,
    model, key_id, request_id, background, tools, input_preview, output_preview, upstream,
    first_token_ms, total_ms, input_tokens, cached_tokens, output_tokens, reasoning_tokens, tool_calls
) VALUES (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
    $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31
)
ON CONFLICT DO NOTHING RETURNING id;

-- name: end_of_response
SELECT chain, end_pos, status FROM responses WHERE tenant = $1 AND id = $2;

-- name: find_response
SELECT chain, output_pos, end_pos, status, body, input, sealed_tools FROM responses
WHERE tenant = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3);

-- name: age_of_response
SELECT created_at FROM responses WHERE tenant = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3);

-- name: newest_responses
SELECT id, created_at, status, body, parent, conversation, expires_at FROM responses
WHERE tenant = $1 AND (expires_at IS NULL OR expires_at > $2)
    AND ($3::text IS NULL OR conversation = $3)
    AND ($4::bigint IS NULL OR (created_at, id) < ($4, $5::text))
ORDER BY created_at DESC, id DESC LIMIT $6;

-- name: outputs_of_responses
-- Of those between two ages, both included.
SELECT r.id, i.type, i.body
FROM responses r JOIN items i
    ON i.tenant = r.tenant AND i.chain = r.chain AND i.pos >= r.output_pos AND i.pos < r.end_pos
WHERE r.tenant = $1 AND (r.created_at, r.id) >= ($2, $3) AND (r.created_at, r.id) <= ($4, $5)
    AND ($6::text IS NULL OR r.conversation = $6)
ORDER BY r.created_at, r.id, i.pos;

-- name: delete_response
DELETE FROM responses WHERE tenant = $1 AND id = $2;

-- Approval requests of MCP tools

-- name: add_approval
INSERT INTO approvals (tenant, id, response, created_at, type, body) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING;

-- name: answer_approval
-- The row stays, so that another answer is refused: the type is that of the answer.
UPDATE approvals SET type = 'mcp_approval_response'
WHERE tenant = $1 AND id = $2 AND type = 'mcp_approval_request';

-- name: take_approval
UPDATE approvals SET type = 'mcp_approval_response'
WHERE tenant = $1 AND id = $2 AND type = 'mcp_approval_request' RETURNING id;

-- name: add_taken_approval
-- Of a request that no stored response has made: the row stands for the answer alone.
INSERT INTO approvals (tenant, id, response, created_at, type, body)
VALUES ($1, $2, '', $3, 'taken', '')
ON CONFLICT DO NOTHING RETURNING id;

-- name: trim_taken_approvals
-- Only the newest $2 of a tenant stay.
DELETE FROM approvals WHERE tenant = $1 AND id IN (
    SELECT id FROM approvals WHERE tenant = $1 AND type = 'taken'
    ORDER BY created_at DESC, id DESC LIMIT 100 OFFSET $2
);

-- name: old_taken_approvals
SELECT tenant, id FROM approvals WHERE type = 'taken' AND created_at < $1 ORDER BY created_at LIMIT $2;

-- name: delete_approval
DELETE FROM approvals WHERE tenant = $1 AND id = $2;

-- name: delete_approvals
DELETE FROM approvals WHERE tenant = $1 AND response = $2;

-- name: open_approvals
-- Of the newest $4 requests those whose response nothing continues: neither on its chain nor on a branch.
SELECT a.id, a.response, a.created_at, a.type, a.body
FROM (
    SELECT id, response, created_at, type, body FROM approvals
    WHERE tenant = $1 AND type = 'mcp_approval_request' ORDER BY created_at DESC, id DESC LIMIT $4
) a JOIN responses r ON r.tenant = $1 AND r.id = a.response
WHERE (r.expires_at IS NULL OR r.expires_at > $2)
    AND NOT EXISTS (
        SELECT 1 FROM responses n WHERE n.tenant = $1 AND n.chain = r.chain AND n.end_pos > r.end_pos
    )
    AND NOT EXISTS (
        SELECT 1 FROM chains c
        WHERE c.tenant = $1 AND c.parent_chain = r.chain AND c.parent_pos = r.end_pos
    )
ORDER BY a.created_at DESC, a.id DESC LIMIT $3;
-- Summaries of responses: lists, trees and statistics

-- name: unfinished_responses
-- Few: as many as run at once. The newest first. The CTE is materialised, so that they are found by their status.
WITH running AS MATERIALIZED (
    SELECT id, created_at, expires_at, status, model, key_id, tools, conversation, background FROM responses
    WHERE tenant = $1 AND status IN ('queued', 'in_progress')
)
SELECT id, created_at FROM running
WHERE (expires_at IS NULL OR expires_at > $2) AND created_at >= $3 AND created_at <= $4
    AND ($5::text IS NULL OR status = $5) AND ($6::text IS NULL OR model = $6)
    AND ($7::text IS NULL OR key_id = $7) AND ($8::text IS NULL OR tools LIKE $8 ESCAPE '!')
    AND ($9::text IS NULL OR conversation = $9) AND ($10::bigint IS NULL OR background = $10)
ORDER BY created_at DESC, id DESC LIMIT $11;

-- name: ended_responses_downwards
-- Read from an index alone: $11 and $12 are the place of the cursor, if there is one.
SELECT id, created_at FROM responses
WHERE tenant = $1 AND status NOT IN ('queued', 'in_progress') AND (expires_at IS NULL OR expires_at > $2)
    AND created_at >= $3 AND created_at <= $4
    AND ($5::text IS NULL OR status = $5) AND ($6::text IS NULL OR model = $6)
    AND ($7::text IS NULL OR key_id = $7) AND ($8::text IS NULL OR tools LIKE $8 ESCAPE '!')
    AND ($9::text IS NULL OR conversation = $9) AND ($10::bigint IS NULL OR background = $10)
    AND ($11::bigint IS NULL OR created_at < $11 OR (created_at = $11 AND id < $12::text))
ORDER BY created_at DESC, id DESC LIMIT $13;

-- name: ended_responses_upwards
SELECT id, created_at FROM responses
WHERE tenant = $1 AND status NOT IN ('queued', 'in_progress') AND (expires_at IS NULL OR expires_at > $2)
    AND created_at >= $3 AND created_at <= $4
    AND ($5::text IS NULL OR status = $5) AND ($6::text IS NULL OR model = $6)
    AND ($7::text IS NULL OR key_id = $7) AND ($8::text IS NULL OR tools LIKE $8 ESCAPE '!')
    AND ($9::text IS NULL OR conversation = $9) AND ($10::bigint IS NULL OR background = $10)
    AND ($11::bigint IS NULL OR created_at > $11 OR (created_at = $11 AND id > $12::text))
ORDER BY created_at, id LIMIT $13;

-- name: responses_with_text
-- Of these, with the text in a preview or in the id.
SELECT id FROM responses
WHERE tenant = $1 AND id IN (SELECT value FROM {json_texts}($2::jsonb))
    AND (lower(input_preview) LIKE $3 ESCAPE '!' OR lower(output_preview) LIKE $3 ESCAPE '!'
        OR lower(id) LIKE $3 ESCAPE '!');

-- name: summaries_of_responses
SELECT r.id, r.status, r.body, r.created_at, r.parent, r.conversation, r.background, r.key_id, r.tools,
    r.input_preview, r.output_preview, r.first_token_ms, r.total_ms, r.upstream,
    EXISTS (SELECT 1 FROM traces t WHERE t.tenant = r.tenant AND t.response = r.id),
    (SELECT count(*) FROM chains c
        WHERE c.tenant = r.tenant AND c.parent_chain = r.chain AND c.parent_pos = r.end_pos)
FROM responses r
WHERE r.tenant = $1 AND r.id IN (SELECT value FROM {json_texts}($2::jsonb));

-- name: place_of_response
SELECT status, created_at, chain, conversation, request_id FROM responses
WHERE tenant = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3);

-- name: tree_of_responses
-- The responses of a chain and of all branches of it, directly or not.
WITH RECURSIVE tree (chain) AS (
    SELECT $2::text
    UNION ALL
    SELECT c.id FROM tree t JOIN chains c ON c.tenant = $1 AND c.parent_chain = t.chain
), bounded AS (SELECT chain FROM tree LIMIT $4)
SELECT r.id, r.parent, r.chain, r.end_pos, r.status, r.model, r.created_at, r.input_tokens, r.output_tokens,
    r.total_ms, r.input_preview, r.output_preview, r.conversation,
    EXISTS (
        SELECT 1 FROM items i WHERE i.tenant = r.tenant AND i.chain = r.chain
            AND i.pos >= r.output_pos AND i.pos < r.end_pos AND i.type = 'compaction'
    )
FROM bounded b JOIN responses r ON r.tenant = $1 AND r.chain = b.chain
WHERE r.expires_at IS NULL OR r.expires_at > $3
LIMIT $4;

-- name: response_of_request
SELECT id FROM responses
WHERE tenant = $1 AND request_id = $2 AND (expires_at IS NULL OR expires_at > $3)
ORDER BY created_at DESC, id DESC LIMIT 1;

-- name: response_of_item
SELECT response FROM items WHERE tenant = $1 AND id = $2 ORDER BY pos DESC LIMIT 1;

-- name: end_of_usage_slice
-- When the response was created that follows $4 others. Read from an index alone.
SELECT created_at FROM responses WHERE tenant = $1 AND created_at >= $2 AND created_at < $3
ORDER BY created_at LIMIT 1 OFFSET $4;

-- name: usage_of_responses
-- Sums of groups; $4 is the length of a bucket, $5 to $7 say what is told apart.
WITH found AS (
    SELECT created_at / $4::bigint * $4::bigint AS start,
        CASE WHEN $5::bigint = 1 THEN model END AS model,
        CASE WHEN $6::bigint = 1 THEN key_id END AS key_id,
        CASE WHEN $7::bigint = 1 THEN upstream END AS upstream,
        status, input_tokens, cached_tokens, output_tokens, reasoning_tokens, tool_calls
    FROM responses
    WHERE tenant = $1 AND created_at >= $2 AND created_at < $3 AND model IS NOT NULL
        AND (expires_at IS NULL OR expires_at > $8)
)
SELECT start, model, key_id, upstream, count(*),
    count(CASE WHEN status = 'failed' THEN 1 END),
    coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(cached_tokens), 0)::bigint,
    coalesce(sum(output_tokens), 0)::bigint, coalesce(sum(reasoning_tokens), 0)::bigint,
    coalesce(sum(tool_calls), 0)::bigint
FROM found GROUP BY start, model, key_id, upstream ORDER BY start, model, key_id, upstream LIMIT $9;

-- name: times_of_responses
-- How many responses of a group took how long: $9 is 1 for the first token, 2 for the complete response. Times
-- are rounded down to two digits or more, so that there are few rows.
WITH found AS (
    SELECT created_at / $4::bigint * $4::bigint AS start,
        CASE WHEN $5::bigint = 1 THEN model END AS model,
        CASE WHEN $6::bigint = 1 THEN key_id END AS key_id,
        CASE WHEN $7::bigint = 1 THEN upstream END AS upstream,
        CASE WHEN $9::bigint = 1 THEN first_token_ms ELSE total_ms END AS ms
    FROM responses
    WHERE tenant = $1 AND created_at >= $2 AND created_at < $3 AND model IS NOT NULL
        AND (expires_at IS NULL OR expires_at > $8)
), rounded AS (
    SELECT start, model, key_id, upstream,
        CASE WHEN ms < 100 THEN ms WHEN ms < 1000 THEN ms / 10 * 10 WHEN ms < 10000 THEN ms / 100 * 100
            WHEN ms < 100000 THEN ms / 1000 * 1000 ELSE ms / 10000 * 10000 END AS ms
    FROM found WHERE ms IS NOT NULL
)
SELECT start, model, key_id, upstream, ms, count(*) FROM rounded
GROUP BY start, model, key_id, upstream, ms ORDER BY start, model, key_id, upstream, ms;

-- Traces

-- name: add_trace
INSERT INTO traces (tenant, response, created_at, data) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, response) DO UPDATE SET data = excluded.data;

-- name: find_trace
SELECT data FROM traces WHERE tenant = $1 AND response = $2;

-- name: delete_trace
DELETE FROM traces WHERE tenant = $1 AND response = $2;

-- name: old_traces
SELECT tenant, response FROM traces WHERE created_at < $1 ORDER BY created_at LIMIT $2;

-- Conversations

-- name: list_conversations
SELECT c.id, c.created_at, c.metadata,
    (SELECT count(*) FROM responses r WHERE r.tenant = c.tenant AND r.chain = c.id),
    (SELECT r.created_at FROM responses r WHERE r.tenant = c.tenant AND r.chain = c.id
        ORDER BY r.end_pos DESC LIMIT 1)
FROM conversations c
WHERE c.tenant = $1 AND ($2::text IS NULL OR c.id < $2) ORDER BY c.id DESC LIMIT $3;

-- name: list_conversations_upwards
SELECT c.id, c.created_at, c.metadata,
    (SELECT count(*) FROM responses r WHERE r.tenant = c.tenant AND r.chain = c.id),
    (SELECT r.created_at FROM responses r WHERE r.tenant = c.tenant AND r.chain = c.id
        ORDER BY r.end_pos DESC LIMIT 1)
FROM conversations c
WHERE c.tenant = $1 AND ($2::text IS NULL OR c.id > $2) ORDER BY c.id LIMIT $3;

-- name: add_conversation
INSERT INTO conversations (tenant, id, metadata, created_at) VALUES ($1, $2, $3, $4);

-- name: find_conversation
SELECT c.created_at, c.metadata, h.head_pos FROM conversations c
JOIN chains h ON h.tenant = c.tenant AND h.id = c.id
WHERE c.tenant = $1 AND c.id = $2;

-- name: set_metadata
UPDATE conversations SET metadata = $3 WHERE tenant = $1 AND id = $2 RETURNING created_at;

-- name: delete_conversation
DELETE FROM conversations WHERE tenant = $1 AND id = $2 RETURNING id;

-- name: lock_conversation
UPDATE conversations SET locked_by = $3, locked_until = {now} + $4::float8
WHERE tenant = $1 AND id = $2 AND (locked_by IS NULL OR locked_by = $3 OR locked_until <= {now})
RETURNING id;

-- name: unlock_conversation
UPDATE conversations SET locked_by = NULL, locked_until = NULL
WHERE tenant = $1 AND id = $2 AND (locked_by IS NULL OR locked_by = $3)
RETURNING id;

-- name: open_conversation
-- For changes by hand: a lock whose time has run out is no lock.
UPDATE conversations SET locked_by = NULL, locked_until = NULL
WHERE tenant = $1 AND id = $2 AND (locked_by IS NULL OR locked_until <= {now})
RETURNING id;

-- name: last_response_in_conversation
SELECT body, sealed_tools FROM responses
WHERE tenant = $1 AND chain = $2 AND status IN ('completed', 'incomplete')
    AND (expires_at IS NULL OR expires_at > $3)
ORDER BY end_pos DESC, created_at DESC LIMIT 1;

-- Runs

-- name: claim_response
UPDATE responses SET token = token + 1, attempts = coalesce($4, attempts), owner = coalesce($5, owner)
WHERE tenant = $1 AND id = $2 AND status IN ('queued', 'in_progress')
    AND (expires_at IS NULL OR expires_at > $3)
RETURNING token, attempts, status, body, request, input, expires_at, sealed_tools,
    EXISTS (SELECT 1 FROM traces t WHERE t.tenant = responses.tenant AND t.response = responses.id),
    key_id, (SELECT k.scopes FROM api_keys k WHERE k.id = responses.key_id), progress;

-- name: progress_response
UPDATE responses SET status = 'in_progress', next_event = $5, progress = coalesce($6::text, progress)
WHERE tenant = $1 AND id = $2 AND token = $3 AND next_event = $4 AND status IN ('queued', 'in_progress')
RETURNING id;

-- name: fence_response
-- Changes nothing: checks who may write, and keeps it so until the end of the transaction.
UPDATE responses SET token = token
WHERE tenant = $1 AND id = $2 AND token = $3 AND status IN ('queued', 'in_progress')
RETURNING chain, end_pos, next_event;

-- name: finish_response
UPDATE responses SET
    chain = $3, start_pos = $4, output_pos = $5, end_pos = $6, status = $7, body = $8, expires_at = $9,
    next_event = $10, sealed_tools = $11, input = NULL, request = NULL, progress = NULL,
    ended_at = {now},
    model = $12, key_id = coalesce($13, key_id), request_id = coalesce($14, request_id), background = $15,
    tools = $16, input_preview = $17, output_preview = $18, upstream = $19,
    first_token_ms = $20, total_ms = $21, input_tokens = $22, cached_tokens = $23, output_tokens = $24,
    reasoning_tokens = $25, tool_calls = $26
WHERE tenant = $1 AND id = $2;

-- name: add_events
INSERT INTO events (tenant, response, first, count, data, private) VALUES ($1, $2, $3, $4, $5, $6);

-- name: events_after
-- The row that holds event $3 + 1 is the last one that begins there or earlier.
SELECT first, count, data, private FROM events
WHERE tenant = $1 AND response = $2 AND first + count - 1 > $3 AND first >= coalesce((
    SELECT max(first) FROM events WHERE tenant = $1 AND response = $2 AND first <= $3::bigint + 1
), 0)
ORDER BY first LIMIT $4;

-- name: event_page
-- As events_after, up to the row in which the page reaches $5 bytes.
WITH page AS (
    SELECT first, octet_length(data) AS size FROM events
    WHERE tenant = $1 AND response = $2 AND first + count - 1 > $3 AND first >= coalesce((
        SELECT max(first) FROM events WHERE tenant = $1 AND response = $2 AND first <= $3::bigint + 1
    ), 0)
    ORDER BY first LIMIT $4
), sized AS (
    SELECT first, sum(size) OVER (ORDER BY first) - size AS before FROM page
)
SELECT first, count, data FROM events
WHERE tenant = $1 AND response = $2 AND first IN (SELECT first FROM sized WHERE before < $5)
ORDER BY first;

-- name: delete_events
DELETE FROM events WHERE tenant = $1 AND response = $2;

-- Jobs

-- name: add_job
INSERT INTO jobs (kind, tenant, id, run_at, period, owner, token)
VALUES ($1, $2, $3, {instant} + $4::float8, $5, $6, $7) ON CONFLICT DO NOTHING;

-- name: claim_jobs
-- The CTE is materialised: without that PostgreSQL may lock rows again and again.
WITH due AS MATERIALIZED (
    SELECT kind, tenant, id FROM jobs
    WHERE kind = $2 AND owner IS NULL AND run_at <= {instant}
    ORDER BY run_at LIMIT $3::bigint FOR UPDATE SKIP LOCKED
)
UPDATE jobs SET owner = $1, token = jobs.token + 1 FROM due
WHERE jobs.kind = due.kind AND jobs.tenant = due.tenant AND jobs.id = due.id
RETURNING jobs.kind, jobs.tenant, jobs.id, jobs.token, jobs.failures, jobs.broken_off;

-- name: claim_tenant_job
-- One job of a tenant that has fewer than $3 under way, in all processes.
WITH busy AS MATERIALIZED (
    SELECT tenant FROM jobs WHERE owner IS NOT NULL AND kind = $2 GROUP BY tenant HAVING count(*) >= $3::bigint
), due AS MATERIALIZED (
    SELECT kind, tenant, id FROM jobs
    WHERE kind = $2 AND owner IS NULL AND run_at <= {instant} AND tenant NOT IN (SELECT tenant FROM busy)
    ORDER BY run_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE jobs SET owner = $1, token = jobs.token + 1 FROM due
WHERE jobs.kind = due.kind AND jobs.tenant = due.tenant AND jobs.id = due.id
RETURNING jobs.kind, jobs.tenant, jobs.id, jobs.token, jobs.failures, jobs.broken_off;

-- name: claim_job
UPDATE jobs SET owner = $1, token = token + 1,
    broken_off = broken_off + CASE WHEN owner IS NULL THEN 0 ELSE 1 END
WHERE kind = $2 AND tenant = $3 AND id = $4 AND (owner IS NULL OR (owner <> $1 AND NOT EXISTS (
    SELECT 1 FROM owners WHERE owners.id = jobs.owner AND owners.beat_at >= {instant} - $5::float8
)))
RETURNING kind, tenant, id, token, failures, broken_off;

-- name: look_for_jobs
SELECT
    (SELECT 1 FROM jobs WHERE kind = $1 AND owner IS NULL AND run_at <= {instant} LIMIT 1),
    (SELECT min(run_at) FROM jobs WHERE kind = $1 AND owner IS NULL AND run_at > {instant}) - {instant};

-- name: lapsed_jobs
SELECT 1 FROM jobs
WHERE owner IS NOT NULL AND owner <> $1 AND NOT EXISTS (
    SELECT 1 FROM owners WHERE owners.id = jobs.owner AND owners.beat_at >= {instant} - $2::float8
) LIMIT 1;

-- name: free_lapsed_jobs
UPDATE jobs SET owner = NULL, run_at = {instant}, broken_off = broken_off + 1
WHERE owner IS NOT NULL AND owner <> $1 AND NOT EXISTS (
    SELECT 1 FROM owners WHERE owners.id = jobs.owner AND owners.beat_at >= {instant} - $2::float8
) RETURNING id;

-- name: held_jobs
SELECT kind, tenant, id, token, failures, broken_off FROM jobs WHERE owner = $1;

-- name: fence_job
-- Changes nothing: checks who may work, and keeps it so until the end of the transaction.
UPDATE jobs SET token = token WHERE kind = $1 AND tenant = $2 AND id = $3 AND owner = $4 AND token = $5
RETURNING id;

-- name: finish_job
DELETE FROM jobs
WHERE kind = $1 AND tenant = $2 AND id = $3 AND owner = $4 AND token = $5 AND period IS NULL;

-- name: reschedule_job
UPDATE jobs SET owner = NULL, run_at = {instant} + period, failures = 0, broken_off = 0
WHERE kind = $1 AND tenant = $2 AND id = $3 AND owner = $4 AND token = $5;

-- name: retry_job
UPDATE jobs SET owner = NULL, run_at = {instant} + $6::float8, failures = failures + 1
WHERE kind = $1 AND tenant = $2 AND id = $3 AND owner = $4 AND token = $5;

-- name: release_job
UPDATE jobs SET owner = NULL, run_at = {instant}
WHERE kind = $1 AND tenant = $2 AND id = $3 AND owner = $4 AND token = $5;

-- name: release_jobs
UPDATE jobs SET owner = NULL, run_at = {instant} WHERE owner = $1;

-- name: reset_job
UPDATE jobs SET broken_off = 0 WHERE kind = $1 AND tenant = $2 AND id = $3 AND broken_off > 0;

-- name: park_job
-- It is not due before `wake_job`.
UPDATE jobs SET owner = NULL, run_at = {instant} + 1e10 WHERE kind = $1 AND tenant = $2 AND id = $3;

-- name: wake_job
UPDATE jobs SET run_at = {instant} WHERE kind = $1 AND tenant = $2 AND id = $3 AND owner IS NULL;

-- name: delete_job
DELETE FROM jobs WHERE kind = $1 AND tenant = $2 AND id = $3;

-- name: first_jobs
SELECT tenant, id FROM jobs WHERE kind = $1 AND owner IS NULL ORDER BY run_at LIMIT $2;

-- name: ids_of_jobs
-- Those that begin with $3, which has $4 characters.
SELECT id FROM jobs WHERE kind = $1 AND tenant = $2 AND substr(id, 1, $4::integer) = $3;

-- name: beat
INSERT INTO owners (id, beat_at) VALUES ($1, {instant})
ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at;

-- name: delete_owner
DELETE FROM owners WHERE id = $1;

-- Runs of agents

-- name: add_agent_run
INSERT INTO agent_runs (tenant, id, status, title, request, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING;

-- name: claim_agent_run
-- An attempt (with $4) has nothing to do in a run that waits for a person.
UPDATE agent_runs SET token = token + 1, attempts = coalesce($4, attempts), owner = coalesce($5, owner)
WHERE tenant = $1 AND id = $2 AND status IN ('queued', 'in_progress', 'waiting')
    AND ($4::bigint IS NULL OR status <> 'waiting') AND (expires_at IS NULL OR expires_at > $3)
RETURNING token, request, id, status, title, created_at, ended_at, attempts, expires_at;

-- name: progress_agent_run
-- Attempts are counted from the last progress: a run of days may outlive many processes.
UPDATE agent_runs SET status = 'in_progress', next_event = $5, attempts = 1
WHERE tenant = $1 AND id = $2 AND token = $3 AND next_event = $4 AND status IN ('queued', 'in_progress')
RETURNING id;

-- name: move_agent_run
UPDATE agent_runs SET status = $6, next_event = $5
WHERE tenant = $1 AND id = $2 AND token = $3 AND next_event = $4
    AND status IN ('queued', 'in_progress', 'waiting')
RETURNING id;

-- name: waiting_agent_runs
SELECT id, status, title, created_at, ended_at, attempts, expires_at FROM agent_runs
WHERE tenant = $1 AND status = 'waiting' AND (expires_at IS NULL OR expires_at > $2)
ORDER BY created_at DESC, id DESC LIMIT $3;

-- name: finish_agent_run
-- The request may hold credentials, and nobody needs it any more.
UPDATE agent_runs SET status = $6, next_event = $5, ended_at = $7, request = ''
WHERE tenant = $1 AND id = $2 AND token = $3 AND next_event = $4 AND status IN ('queued', 'in_progress', 'waiting')
RETURNING id;

-- name: place_in_agent_run
-- Where the log ends, for who holds the newest token of an unfinished run.
SELECT next_event FROM agent_runs
WHERE tenant = $1 AND id = $2 AND token = $3 AND status IN ('queued', 'in_progress', 'waiting');

-- name: find_agent_run
SELECT id, status, title, created_at, ended_at, attempts, expires_at FROM agent_runs
WHERE tenant = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3);

-- name: newest_agent_runs
SELECT id, status, title, created_at, ended_at, attempts, expires_at FROM agent_runs
WHERE tenant = $1 AND (expires_at IS NULL OR expires_at > $2)
    AND ($3::bigint IS NULL OR (created_at, id) < ($3, $4::text))
ORDER BY created_at DESC, id DESC LIMIT $5;

-- name: delete_agent_run
DELETE FROM agent_runs WHERE tenant = $1 AND id = $2;

-- name: add_agent_event
INSERT INTO agent_events (tenant, run, number, data) VALUES ($1, $2, $3, $4);

-- name: agent_events_after
SELECT number, data FROM agent_events WHERE tenant = $1 AND run = $2 AND number > $3 ORDER BY number;

-- name: delete_agent_events
DELETE FROM agent_events WHERE tenant = $1 AND run = $2;

-- Keys

-- name: add_key
INSERT INTO api_keys (id, tenant, name, digest, scopes, created_at, expires_at, revoked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: all_keys
SELECT id, tenant, name, digest, scopes, created_at, expires_at, revoked_at FROM api_keys
ORDER BY created_at, id;

-- name: revoke_key
UPDATE api_keys SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1 RETURNING id;

-- name: delete_key
DELETE FROM api_keys WHERE id = $1 RETURNING id;

-- name: add_seal_key
INSERT INTO seal_key (id, fingerprint) VALUES (1, $1) ON CONFLICT (id) DO NOTHING;

-- name: find_seal_key
SELECT fingerprint FROM seal_key WHERE id = 1;

-- name: replace_seal_key
INSERT INTO seal_key (id, fingerprint) VALUES (1, $1)
ON CONFLICT (id) DO UPDATE SET fingerprint = excluded.fingerprint;

-- Files: names and purposes of blobs

-- name: add_file
INSERT INTO files (tenant, id, filename, purpose, media_type, bytes, hash, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: find_file
SELECT f.id, f.filename, f.purpose, f.media_type, f.bytes, f.hash, f.created_at, f.expires_at, b.key
FROM files f JOIN blobs b ON b.tenant = f.tenant AND b.hash = f.hash
WHERE f.tenant = $1 AND f.id = $2 AND (f.expires_at IS NULL OR f.expires_at > $3);

-- name: files_upwards
SELECT id, filename, purpose, media_type, bytes, hash, created_at, expires_at, '' FROM files
WHERE tenant = $1 AND id > $2 AND (expires_at IS NULL OR expires_at > $3) ORDER BY id LIMIT $4;

-- name: files_downwards
SELECT id, filename, purpose, media_type, bytes, hash, created_at, expires_at, '' FROM files
WHERE tenant = $1 AND id < $2 AND (expires_at IS NULL OR expires_at > $3) ORDER BY id DESC LIMIT $4;

-- name: files_of_purpose_upwards
SELECT id, filename, purpose, media_type, bytes, hash, created_at, expires_at, '' FROM files
WHERE tenant = $1 AND purpose = $5 AND id > $2 AND (expires_at IS NULL OR expires_at > $3)
ORDER BY id LIMIT $4;

-- name: files_of_purpose_downwards
SELECT id, filename, purpose, media_type, bytes, hash, created_at, expires_at, '' FROM files
WHERE tenant = $1 AND purpose = $5 AND id < $2 AND (expires_at IS NULL OR expires_at > $3)
ORDER BY id DESC LIMIT $4;

-- name: delete_file
DELETE FROM files WHERE tenant = $1 AND id = $2 RETURNING hash;

-- name: expired_files
SELECT tenant, id FROM files WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2;

-- name: refer_to_blob
-- The key is that of the object that was stored first.
INSERT INTO blobs (tenant, hash, key, bytes, refs) VALUES ($1, $2, $3, $4, 1)
ON CONFLICT (tenant, hash) DO UPDATE SET refs = blobs.refs + 1 RETURNING key;

-- name: release_blob
UPDATE blobs SET refs = refs - 1 WHERE tenant = $1 AND hash = $2 RETURNING refs, key, bytes;

-- name: delete_blob
DELETE FROM blobs WHERE tenant = $1 AND hash = $2;

-- name: file_usage
SELECT files, bytes FROM file_usage WHERE tenant = $1;

-- name: start_file_usage
INSERT INTO file_usage (tenant, files, bytes) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING;

-- name: change_file_usage
-- Not beyond the limits $4 and $5, which what is given back cannot exceed.
UPDATE file_usage SET files = files + $2::bigint, bytes = bytes + $3::bigint
WHERE tenant = $1 AND ($2::bigint <= 0 OR files + $2::bigint <= $4::bigint)
    AND ($3::bigint <= 0 OR bytes + $3::bigint <= $5::bigint)
RETURNING files;

-- Uploads: files in parts

-- name: add_upload
INSERT INTO uploads (
    tenant, id, filename, purpose, media_type, bytes, status, created_at, expires_at, file_lifetime
) VALUES ($1, $2, $3, $4, $5, $6, 'pending', $7, $8, $9);

-- name: find_upload
SELECT id, filename, purpose, media_type, bytes, status, created_at, expires_at, file_lifetime, file
FROM uploads WHERE tenant = $1 AND id = $2;

-- name: lock_upload
-- Changes nothing: checks that it is still open, and keeps it so until the end of the transaction.
UPDATE uploads SET status = status
WHERE tenant = $1 AND id = $2 AND status = 'pending' AND expires_at > $3 RETURNING id;

-- name: end_upload
UPDATE uploads SET status = $3, file = $4 WHERE tenant = $1 AND id = $2;

-- name: add_part
INSERT INTO upload_parts (tenant, upload, id, key, bytes, created_at) VALUES ($1, $2, $3, $4, $5, $6);

-- name: parts_of_upload
SELECT id, key, bytes, created_at FROM upload_parts WHERE tenant = $1 AND upload = $2;

-- name: delete_parts
DELETE FROM upload_parts WHERE tenant = $1 AND upload = $2;

-- name: lapsed_uploads
-- Those that still have parts.
SELECT u.tenant, u.id FROM uploads u
WHERE u.expires_at <= $1
    AND EXISTS (SELECT 1 FROM upload_parts p WHERE p.tenant = u.tenant AND p.upload = u.id)
ORDER BY u.expires_at LIMIT $2;

-- name: old_uploads
SELECT tenant, id FROM uploads WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2;

-- name: delete_upload
DELETE FROM uploads WHERE tenant = $1 AND id = $2;

-- Objects of the blob store

-- name: add_unreferenced_object
INSERT INTO unreferenced_objects (key, due_at) VALUES ($1, {now} + $2::float8) ON CONFLICT DO NOTHING;

-- name: refer_to_object
-- Only before it is due: from then on it may be deleted.
DELETE FROM unreferenced_objects WHERE key = $1 AND due_at > {now} RETURNING key;

-- name: due_objects
SELECT key FROM unreferenced_objects WHERE due_at <= {instant} ORDER BY due_at LIMIT $1;

-- name: make_object_due
UPDATE unreferenced_objects SET due_at = {now} WHERE key = $1 RETURNING key;

-- name: forget_object
DELETE FROM unreferenced_objects WHERE key = $1;

-- name: add_object_piece
INSERT INTO object_pieces (key, number, data) VALUES ($1, $2, $3);

-- name: object_piece
SELECT data FROM object_pieces WHERE key = $1 AND number = $2;

-- name: delete_object
DELETE FROM object_pieces WHERE key = $1;

-- Vector stores. Statements on chunks name the number of a set, which was read with the tenant.

-- name: add_chunk_set
INSERT INTO chunk_sets (to_erase) VALUES (0) RETURNING number;

-- name: erase_chunk_set
UPDATE chunk_sets SET to_erase = 1 WHERE number = $1;

-- name: add_vector_store
INSERT INTO vector_stores (
    tenant, id, name, description, metadata, created_at, last_active_at, expires_after_days, expires_at, model,
    dimensions, chunk_set
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: find_vector_store
SELECT id, name, description, metadata, created_at, last_active_at, expires_after_days, expires_at, model,
    dimensions, usage_bytes, in_progress, completed, failed, cancelled, is_expired, chunk_set, version
FROM vector_stores WHERE tenant = $1 AND id = $2 AND is_deleted = 0;

-- name: lock_vector_store
-- Changes nothing: others that change this store or its files wait for the end of the transaction.
UPDATE vector_stores SET version = version WHERE tenant = $1 AND id = $2 AND is_deleted = 0
RETURNING id, name, description, metadata, created_at, last_active_at, expires_after_days, expires_at, model,
    dimensions, usage_bytes, in_progress, completed, failed, cancelled, is_expired, chunk_set, version;

-- name: vector_stores_upwards
SELECT id, name, description, metadata, created_at, last_active_at, expires_after_days, expires_at, model,
    dimensions, usage_bytes, in_progress, completed, failed, cancelled, is_expired, chunk_set, version
FROM vector_stores
WHERE tenant = $1 AND id > $2 AND id < $3 AND is_deleted = 0
ORDER BY id LIMIT $4;

-- name: vector_stores_downwards
SELECT id, name, description, metadata, created_at, last_active_at, expires_after_days, expires_at, model,
    dimensions, usage_bytes, in_progress, completed, failed, cancelled, is_expired, chunk_set, version
FROM vector_stores
WHERE tenant = $1 AND id > $2 AND id < $3 AND is_deleted = 0
ORDER BY id DESC LIMIT $4;

-- name: change_vector_store
UPDATE vector_stores
SET name = $3, metadata = $4, expires_after_days = $5, expires_at = $6, last_active_at = $7
WHERE tenant = $1 AND id = $2;

-- name: use_vector_store
UPDATE vector_stores SET last_active_at = $3::bigint, expires_at = $3::bigint + expires_after_days * 86400
WHERE tenant = $1 AND id = $2 AND is_deleted = 0 AND is_expired = 0
    AND (expires_at IS NULL OR expires_at > $3::bigint);

-- name: set_vector_model
UPDATE vector_stores SET model = $3, dimensions = $4, chunk_set = $5, version = version + 1
WHERE tenant = $1 AND id = $2;

-- name: set_vector_dimensions
UPDATE vector_stores SET dimensions = $3 WHERE tenant = $1 AND id = $2;

-- name: count_vector_files
UPDATE vector_stores SET
    in_progress = in_progress + $3::bigint, completed = completed + $4::bigint, failed = failed + $5::bigint,
    cancelled = cancelled + $6::bigint, usage_bytes = usage_bytes + $7::bigint, version = version + $8::bigint
WHERE tenant = $1 AND id = $2;

-- name: number_vector_files
UPDATE vector_stores SET next_file = next_file + $3::bigint WHERE tenant = $1 AND id = $2 RETURNING next_file;

-- name: end_vector_store
UPDATE vector_stores SET
    in_progress = 0, completed = 0, failed = 0, cancelled = 0, usage_bytes = 0, version = version + 1,
    is_expired = $3, is_deleted = $4, to_erase = 1
WHERE tenant = $1 AND id = $2;

-- name: expired_vector_stores
SELECT tenant, id FROM vector_stores
WHERE expires_at IS NOT NULL AND is_expired = 0 AND is_deleted = 0 AND expires_at <= $1
ORDER BY expires_at LIMIT $2;

-- name: vector_stores_to_erase
SELECT tenant, id, is_deleted FROM vector_stores WHERE to_erase = 1 ORDER BY tenant, id LIMIT $1;

-- name: erase_vector_files
DELETE FROM vector_store_files WHERE tenant = $1 AND store = $2 AND id IN (
    SELECT id FROM vector_store_files WHERE tenant = $1 AND store = $2 LIMIT $3
) RETURNING id;

-- name: erase_vector_batches
DELETE FROM vector_file_batches WHERE tenant = $1 AND store = $2 AND id IN (
    SELECT id FROM vector_file_batches WHERE tenant = $1 AND store = $2 LIMIT $3
) RETURNING id;

-- name: delete_vector_store
DELETE FROM vector_stores WHERE tenant = $1 AND id = $2;

-- name: keep_vector_store
UPDATE vector_stores SET to_erase = 0 WHERE tenant = $1 AND id = $2;

-- name: delete_store_jobs
-- The ids of jobs begin with $3, which has $4 characters.
DELETE FROM jobs WHERE kind = $1 AND tenant = $2 AND substr(id, 1, $4::integer) = $3;

-- name: vector_usage
SELECT stores, bytes FROM vector_usage WHERE tenant = $1;

-- name: start_vector_usage
INSERT INTO vector_usage (tenant, stores, bytes) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING;

-- name: change_vector_usage
-- Not beyond the limits $4 and $5, which what is given back cannot exceed.
UPDATE vector_usage SET stores = stores + $2::bigint, bytes = bytes + $3::bigint
WHERE tenant = $1 AND ($2::bigint <= 0 OR stores + $2::bigint <= $4::bigint)
    AND ($3::bigint <= 0 OR bytes + $3::bigint <= $5::bigint)
RETURNING stores;

-- Files of vector stores

-- name: add_vector_file
INSERT INTO vector_store_files (
    tenant, store, id, number, filename, created_at, chunk_tokens, overlap_tokens, attributes, status, batch
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'in_progress', $10);

-- name: find_vector_file
SELECT id, store, filename, created_at, chunk_tokens, overlap_tokens, attributes, status, error_code,
    error_message, usage_bytes, batch, number, chunks
FROM vector_store_files WHERE tenant = $1 AND store = $2 AND id = $3;

-- name: listed_vector_files
-- Those of the ids in $3, a JSON array.
SELECT id, store, filename, created_at, chunk_tokens, overlap_tokens, attributes, status, error_code,
    error_message, usage_bytes, batch, number, chunks
FROM vector_store_files WHERE tenant = $1 AND store = $2 AND id IN (SELECT value FROM {json_texts}($3::jsonb));

-- name: numbers_of_vector_files
SELECT id, number FROM vector_store_files
WHERE tenant = $1 AND store = $2 AND id IN (SELECT value FROM {json_texts}($3::jsonb));

-- name: stores_of_file
SELECT store FROM vector_store_files WHERE tenant = $1 AND id = $2 ORDER BY store;

-- name: unfinished_vector_files
SELECT id, store, filename, created_at, chunk_tokens, overlap_tokens, attributes, status, error_code,
    error_message, usage_bytes, batch, number, chunks
FROM vector_store_files WHERE tenant = $1 AND store = $2 AND batch = $3 AND status = 'in_progress';

-- name: all_vector_files
SELECT id, store, filename, created_at, chunk_tokens, overlap_tokens, attributes, status, error_code,
    error_message, usage_bytes, batch, number, chunks
FROM vector_store_files WHERE tenant = $1 AND store = $2 ORDER BY number;

-- name: vector_files_upwards
SELECT id, store, filename, created_at, chunk_tokens, overlap_tokens, attributes, status, error_code,
    error_message, usage_bytes, batch, number, chunks
FROM vector_store_files
WHERE tenant = $1 AND store = $2 AND number > $3 AND number < $4
    AND ($5::text IS NULL OR status = $5) AND ($6::text IS NULL OR batch = $6)
ORDER BY number LIMIT $7;

-- name: vector_files_downwards
SELECT id, store, filename, created_at, chunk_tokens, overlap_tokens, attributes, status, error_code,
    error_message, usage_bytes, batch, number, chunks
FROM vector_store_files
WHERE tenant = $1 AND store = $2 AND number > $3 AND number < $4
    AND ($5::text IS NULL OR status = $5) AND ($6::text IS NULL OR batch = $6)
ORDER BY number DESC LIMIT $7;

-- name: set_vector_attributes
UPDATE vector_store_files SET attributes = $4 WHERE tenant = $1 AND store = $2 AND id = $3;

-- name: progress_vector_file
UPDATE vector_store_files
SET chunks = chunks + $4::bigint, usage_bytes = usage_bytes + $5::bigint, error_code = NULL, error_message = NULL
WHERE tenant = $1 AND store = $2 AND id = $3;

-- name: end_vector_file
UPDATE vector_store_files SET status = $4, error_code = $5, error_message = $6
WHERE tenant = $1 AND store = $2 AND id = $3;

-- name: restart_vector_file
UPDATE vector_store_files
SET status = 'in_progress', error_code = NULL, error_message = NULL, usage_bytes = 0, chunks = 0, number = $4
WHERE tenant = $1 AND store = $2 AND id = $3;

-- name: empty_vector_file
UPDATE vector_store_files SET usage_bytes = 0, chunks = 0 WHERE tenant = $1 AND store = $2 AND id = $3;

-- name: delete_vector_file
DELETE FROM vector_store_files WHERE tenant = $1 AND store = $2 AND id = $3;

-- name: add_vector_batch
INSERT INTO vector_file_batches (tenant, store, id, created_at) VALUES ($1, $2, $3, $4);

-- name: find_vector_batch
SELECT created_at, is_cancelled FROM vector_file_batches WHERE tenant = $1 AND store = $2 AND id = $3;

-- name: cancel_vector_batch
UPDATE vector_file_batches SET is_cancelled = 1 WHERE tenant = $1 AND store = $2 AND id = $3;

-- name: count_vector_batch
SELECT status, count(*) FROM vector_store_files WHERE tenant = $1 AND store = $2 AND batch = $3 GROUP BY status;

-- Chunks

-- name: take_slots
UPDATE chunk_sets SET next_slot = next_slot + $2::bigint WHERE number = $1 RETURNING next_slot;

-- name: add_portion
INSERT INTO chunk_portions (chunk_set, first, count, file, ordinal, lengths) VALUES ($1, $2, $3, $4, $5, $6);

-- name: add_chunk
INSERT INTO chunks (number, chunk_set, file, ordinal, text, label, words)
VALUES ($1, $2, $3, $4, $5, $6, $7::tsvector);

-- name: portions_of_file
SELECT first, count FROM chunk_portions WHERE chunk_set = $1 AND file = $2 LIMIT $3;

-- name: chunk_sets_to_erase
SELECT number FROM chunk_sets WHERE to_erase = 1 ORDER BY number LIMIT $1;

-- name: first_portions
SELECT first, count FROM chunk_portions WHERE chunk_set = $1 ORDER BY first LIMIT $2;

-- name: delete_chunk_set
DELETE FROM chunk_sets WHERE number = $1;

-- name: erase_portion
DELETE FROM chunk_portions WHERE chunk_set = $1 AND first = $2;

-- name: erase_chunks
DELETE FROM chunks WHERE number >= $1 AND number < $2;

-- name: erase_vectors
DELETE FROM chunk_vectors WHERE number >= $1 AND number < $2;

-- name: listed_chunks
-- $4 is a JSON array of numbers, each a file's number * 2^32 + an ordinal.
SELECT f.id, f.filename, f.attributes, c.ordinal, c.text, c.label
FROM {json_texts}($4::jsonb) wanted
JOIN chunks c ON c.chunk_set = $3 AND c.file = wanted.value::bigint / 4294967296
    AND c.ordinal = wanted.value::bigint % 4294967296
JOIN vector_store_files f ON f.tenant = $1 AND f.store = $2 AND f.number = c.file
WHERE f.status = 'completed';

-- name: chunks_of_file
SELECT ordinal, text, label FROM chunks WHERE chunk_set = $1 AND file = $2 AND ordinal >= $3
ORDER BY ordinal LIMIT $4;

-- Search

-- name: searched_files
SELECT number, id, attributes FROM vector_store_files
WHERE tenant = $1 AND store = $2 AND status = 'completed' ORDER BY number;

-- name: searched_portions
SELECT p.first, p.count, p.file, p.ordinal, p.lengths
FROM vector_store_files f JOIN chunk_portions p ON p.chunk_set = $3 AND p.file = f.number
WHERE f.tenant = $1 AND f.store = $2 AND f.status = 'completed' ORDER BY p.first;

-- name: hidden_files
-- Files whose chunks are saved already, but not to be found.
SELECT number FROM vector_store_files WHERE tenant = $1 AND store = $2 AND status <> 'completed' AND chunks > 0;

-- Upkeep

-- name: expired_responses
SELECT tenant, id, chain FROM responses WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2;

-- name: count_finished
SELECT (SELECT count(*) FROM responses)
    - (SELECT count(*) FROM responses WHERE status IN ('queued', 'in_progress'));

-- name: oldest_finished
SELECT tenant, id, chain FROM responses WHERE status NOT IN ('queued', 'in_progress')
ORDER BY created_at, id LIMIT $1;

-- name: old_logs
SELECT tenant, id FROM responses
WHERE next_event IS NOT NULL AND ended_at IS NOT NULL AND ended_at < {now} - $1::float8
ORDER BY ended_at LIMIT $2;

-- name: forget_log
UPDATE responses SET next_event = NULL WHERE tenant = $1 AND id = $2;

-- name: expired_agent_runs
SELECT tenant, id FROM agent_runs WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2;

-- name: count_ended_agent_runs
SELECT (SELECT count(*) FROM agent_runs)
    - (SELECT count(*) FROM agent_runs WHERE status IN ('queued', 'in_progress', 'waiting'));

-- name: oldest_ended_agent_runs
SELECT tenant, id FROM agent_runs WHERE status NOT IN ('queued', 'in_progress', 'waiting')
ORDER BY created_at, id LIMIT $1;

-- name: delete_dead_owners
DELETE FROM owners WHERE beat_at < {now} - $1::float8 RETURNING id;

-- Migrations

-- name: create_migrations_table
CREATE TABLE IF NOT EXISTS schema_migrations (
    version bigint PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at float8 NOT NULL
);

-- name: applied_migrations
SELECT version, checksum FROM schema_migrations ORDER BY version;

-- name: record_migration
INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES ($1, $2, $3, {now});
