-- Unfinished work, one row per job. The row that a job belongs to is the truth; the job names who works on it,
-- when it is due, and how often it was tried. `owner` and `token` name one claim.
--
-- The columns `owner` of responses and agent_runs say who claimed the row last; nothing depends on them.

CREATE TABLE jobs (
    kind text NOT NULL,
    tenant text NOT NULL,
    id text NOT NULL,
    run_at real NOT NULL,          -- when it is due
    period real,                   -- seconds until it is due again after it was done; NULL: it is done once
    owner text,
    token integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    broken_off integer NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, tenant, id)
) WITHOUT ROWID;
CREATE INDEX jobs_due ON jobs (kind, run_at) WHERE owner IS NULL;
CREATE INDEX jobs_held ON jobs (owner, kind, tenant) WHERE owner IS NOT NULL;

INSERT INTO jobs (kind, tenant, id, run_at)
SELECT 'response', tenant, id, 0 FROM responses WHERE status IN ('queued', 'in_progress');
INSERT INTO jobs (kind, tenant, id, run_at)
SELECT 'agent_run', tenant, id, 0 FROM agent_runs WHERE status IN ('queued', 'in_progress');
