-- Runs that wait for a person are unfinished, too; and they are listed.

DROP INDEX agent_runs_unfinished;
CREATE INDEX agent_runs_unfinished ON agent_runs (status) WHERE status IN ('queued', 'in_progress', 'waiting');
CREATE INDEX agent_runs_waiting ON agent_runs (tenant, created_at, id) WHERE status = 'waiting';

-- Approval requests of MCP tools that nobody has answered: one row per item `mcp_approval_request` in the output
-- of a stored response. It goes with the answer, or with the response.
CREATE TABLE approvals (
    tenant text NOT NULL,
    id text NOT NULL,
    response text NOT NULL,
    created_at bigint NOT NULL,
    type text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX approvals_by_age ON approvals (tenant, created_at, id);
CREATE INDEX approvals_by_response ON approvals (tenant, response);
