-- Runs of an agent in the background, and what each of them did: one row per event, numbered from 0.
-- The log goes with its run, never before.

CREATE TABLE agent_runs (
    tenant text NOT NULL,
    id text NOT NULL,
    status text NOT NULL,
    title text NOT NULL,
    request text NOT NULL,
    created_at integer NOT NULL,
    ended_at integer,
    expires_at integer,
    owner text,
    token integer NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    next_event integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX agent_runs_by_age ON agent_runs (tenant, created_at, id);
CREATE INDEX agent_runs_unfinished ON agent_runs (status) WHERE status IN ('queued', 'in_progress');
CREATE INDEX agent_runs_by_expiry ON agent_runs (expires_at) WHERE expires_at IS NOT NULL;

-- With a rowid: an event holds what a model or a tool said.
CREATE TABLE agent_events (
    tenant text NOT NULL,
    run text NOT NULL,
    number integer NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (tenant, run, number)
);

-- As for responses: a tenant has many rows, an id has one.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('agent_runs', 'sqlite_autoindex_agent_runs_1', '1000000 100000 1'),
    ('agent_runs', 'agent_runs_by_age', '1000000 100000 10 1'),
    ('agent_runs', 'agent_runs_unfinished', '1000 500'),
    ('agent_runs', 'agent_runs_by_expiry', '1000000 10'),
    ('agent_events', 'sqlite_autoindex_agent_events_1', '1000000 100000 40 1');
ANALYZE sqlite_schema;
