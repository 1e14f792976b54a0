-- The tables of sqlite/0001_initial.sql, which explains them, in the types of PostgreSQL.

CREATE TABLE chains (
    tenant text NOT NULL,
    id text NOT NULL,
    parent_chain text,
    parent_pos bigint,
    head_pos bigint NOT NULL,
    named bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX chains_by_parent ON chains (tenant, parent_chain, parent_pos) WHERE parent_chain IS NOT NULL;

CREATE TABLE responses (
    tenant text NOT NULL,
    id text NOT NULL,
    chain text,
    start_pos bigint,
    output_pos bigint,
    end_pos bigint,
    parent text,
    conversation text,
    status text NOT NULL,
    body text NOT NULL,
    input text,
    request text,
    created_at bigint NOT NULL,
    expires_at bigint,
    owner text,
    token bigint NOT NULL DEFAULT 0,
    attempts bigint NOT NULL DEFAULT 0,
    next_event bigint,
    ended_at double precision,
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
    pos bigint NOT NULL,
    id text NOT NULL,
    response text,
    type text NOT NULL,
    body text NOT NULL,
    hidden_from bigint,
    PRIMARY KEY (tenant, chain, pos)
);
CREATE INDEX items_by_id ON items (tenant, id);

CREATE TABLE conversations (
    tenant text NOT NULL,
    id text NOT NULL,
    metadata text NOT NULL,
    created_at bigint NOT NULL,
    locked_by text,
    locked_until double precision,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE events (
    tenant text NOT NULL,
    response text NOT NULL,
    first bigint NOT NULL,
    count bigint NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (tenant, response, first)
);

CREATE TABLE owners (
    id text PRIMARY KEY,
    beat_at double precision NOT NULL
);

CREATE TABLE api_keys (
    id text PRIMARY KEY,
    tenant text NOT NULL,
    name text NOT NULL,
    digest text NOT NULL,
    scopes text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);
