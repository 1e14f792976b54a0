-- Chains hold items at positions; a branch begins at a position of its parent chain and counts on from there,
-- so a history is read in order of position: one range of items per branch.
--
-- Tables of small rows are WITHOUT ROWID. Responses and items are not: a key tree moves every row of more than
-- about 1,000 bytes to a page of its own.

CREATE TABLE chains (
    tenant text NOT NULL,
    id text NOT NULL,
    parent_chain text,
    parent_pos integer,
    head_pos integer NOT NULL,
    named integer NOT NULL DEFAULT 0, -- 1: a conversation's own; only the conversation appends to it
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX chains_by_parent ON chains (tenant, parent_chain, parent_pos) WHERE parent_chain IS NOT NULL;

-- A response owns the positions [start_pos, end_pos) of its chain, its output begins at output_pos.
-- An unfinished one stands with an empty range where it goes on from, so that this stays; it has no chain if it
-- goes on from nothing. Its input is in `input`, its request in `request`.
CREATE TABLE responses (
    tenant text NOT NULL,
    id text NOT NULL,
    chain text,
    start_pos integer,
    output_pos integer,
    end_pos integer,
    parent text,
    conversation text,
    status text NOT NULL,
    body text NOT NULL,       -- the response without its output
    input text,
    request text,
    created_at integer NOT NULL,
    expires_at integer,
    owner text,
    token integer NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    next_event integer,       -- NULL: there is no event log
    ended_at real,            -- when the event log got its last event
    PRIMARY KEY (tenant, id)
);
CREATE INDEX responses_by_chain ON responses (tenant, chain, end_pos);
CREATE INDEX responses_by_age ON responses (tenant, created_at, id);
CREATE INDEX responses_unfinished ON responses (status) WHERE status IN ('queued', 'in_progress');
CREATE INDEX responses_by_expiry ON responses (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX responses_with_log ON responses (ended_at) WHERE next_event IS NOT NULL AND ended_at IS NOT NULL;

CREATE TABLE items (
    tenant text NOT NULL,
    chain text NOT NULL,
    pos integer NOT NULL,
    id text NOT NULL,         -- not unique: clients send items again
    response text,            -- NULL: put into a conversation by hand
    type text NOT NULL,
    body text NOT NULL,
    hidden_from integer,      -- taken out of its conversation: histories that end beyond are without it
    PRIMARY KEY (tenant, chain, pos)
);
CREATE INDEX items_by_id ON items (tenant, id);

CREATE TABLE conversations (
    tenant text NOT NULL,
    id text NOT NULL,         -- also the id of its chain
    metadata text NOT NULL,
    created_at integer NOT NULL,
    locked_by text,
    locked_until real,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE events (
    tenant text NOT NULL,
    response text NOT NULL,
    first integer NOT NULL,
    count integer NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (tenant, response, first)
) WITHOUT ROWID;

CREATE TABLE owners (
    id text PRIMARY KEY,
    beat_at real NOT NULL
) WITHOUT ROWID;

CREATE TABLE api_keys (
    id text PRIMARY KEY,
    tenant text NOT NULL,
    name text NOT NULL,
    digest text NOT NULL,
    scopes text NOT NULL,
    created_at integer NOT NULL,
    expires_at integer,
    revoked_at integer
) WITHOUT ROWID;

-- What the planner should know, once and for all: a tenant has many rows, an id has few. Without it SQLite takes
-- the primary key wherever a tenant is named, and would look for one item among all of them.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('responses', 'sqlite_autoindex_responses_1', '1000000 100000 1'),
    ('responses', 'responses_by_chain', '1000000 100000 10 1'),
    ('responses', 'responses_by_age', '1000000 100000 10 1'),
    ('responses', 'responses_unfinished', '1000 500'),
    ('responses', 'responses_by_expiry', '1000000 10'),
    ('responses', 'responses_with_log', '10000 1'),
    ('items', 'sqlite_autoindex_items_1', '1000000 100000 40 1'),
    ('items', 'items_by_id', '1000000 100000 1');
ANALYZE sqlite_schema;
