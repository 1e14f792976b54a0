-- The table of sqlite/0004_jobs.sql, which explains it, in the types of PostgreSQL.

CREATE TABLE jobs (
    kind text NOT NULL,
    tenant text NOT NULL,
    id text NOT NULL,
    run_at double precision NOT NULL,
    period double precision,
    owner text,
    token bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0,
    broken_off bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, tenant, id)
);
CREATE INDEX jobs_due ON jobs (kind, run_at) WHERE owner IS NULL;
CREATE INDEX jobs_held ON jobs (owner, kind, tenant) WHERE owner IS NOT NULL;

INSERT INTO jobs (kind, tenant, id, run_at)
SELECT 'response', tenant, id, 0 FROM responses WHERE status IN ('queued', 'in_progress');
INSERT INTO jobs (kind, tenant, id, run_at)
SELECT 'agent_run', tenant, id, 0 FROM agent_runs WHERE status IN ('queued', 'in_progress');
