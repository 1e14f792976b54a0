-- An answer to a request that no stored response has made is a row of the type 'taken', without a response. It is
-- erased after some time.
CREATE INDEX approvals_taken ON approvals (tenant, created_at, id) WHERE type = 'taken';
CREATE INDEX approvals_taken_by_age ON approvals (created_at) WHERE type = 'taken';
