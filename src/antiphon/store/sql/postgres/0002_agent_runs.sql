-- The tables of sqlite/0002_agent_runs.sql, which explains them, in the types of PostgreSQL.

CREATE TABLE agent_runs (
    tenant text NOT NULL,
    id text NOT NULL,
    status text NOT NULL,
    title text NOT NULL,
    request text NOT NULL,
    created_at bigint NOT NULL,
    ended_at bigint,
    expires_at bigint,
    owner text,
    token bigint NOT NULL DEFAULT 0,
    attempts bigint NOT NULL DEFAULT 0,
    next_event bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX agent_runs_by_age ON agent_runs (tenant, created_at, id);
CREATE INDEX agent_runs_unfinished ON agent_runs (status) WHERE status IN ('queued', 'in_progress');
CREATE INDEX agent_runs_by_expiry ON agent_runs (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE agent_events (
    tenant text NOT NULL,
    run text NOT NULL,
    number bigint NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (tenant, run, number)
);
