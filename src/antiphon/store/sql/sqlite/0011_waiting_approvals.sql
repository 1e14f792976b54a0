-- An approval request stays when it is answered, as a row of another type, and goes with its response: those
-- that wait are looked for in an index of their own.
DROP INDEX approvals_by_age;
CREATE INDEX approvals_waiting ON approvals (tenant, created_at, id) WHERE type = 'mcp_approval_request';

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('approvals', 'approvals_waiting', '1000 100 10 1');
ANALYZE sqlite_schema;
