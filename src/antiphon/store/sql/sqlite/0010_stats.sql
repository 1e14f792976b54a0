-- What lists, filters and statistics of responses read, beside the response itself. NULL in older rows.
ALTER TABLE responses ADD COLUMN model text;
ALTER TABLE responses ADD COLUMN key_id text;
ALTER TABLE responses ADD COLUMN request_id text;
ALTER TABLE responses ADD COLUMN background integer;
ALTER TABLE responses ADD COLUMN tools text;            -- names of the tools that were called: ' web_search mcp '
ALTER TABLE responses ADD COLUMN input_preview text;
ALTER TABLE responses ADD COLUMN output_preview text;
ALTER TABLE responses ADD COLUMN upstream text;
ALTER TABLE responses ADD COLUMN first_token_ms integer;
ALTER TABLE responses ADD COLUMN total_ms integer;
ALTER TABLE responses ADD COLUMN input_tokens integer;
ALTER TABLE responses ADD COLUMN cached_tokens integer;
ALTER TABLE responses ADD COLUMN output_tokens integer;
ALTER TABLE responses ADD COLUMN reasoning_tokens integer;
ALTER TABLE responses ADD COLUMN tool_calls integer;

-- It begins like the index that it replaces, and holds what filters and sums read: rows are read for a page only.
DROP INDEX responses_by_age;
CREATE INDEX responses_by_age ON responses (
    tenant, created_at, id, expires_at, status, model, key_id, request_id, background, conversation, tools,
    upstream, first_token_ms, total_ms, input_tokens, cached_tokens, output_tokens, reasoning_tokens, tool_calls
);

-- What was sent upstream for a response, and what came back: sealed and compressed.
CREATE TABLE traces (
    tenant text NOT NULL,
    response text NOT NULL,
    created_at integer NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (tenant, response)
);
CREATE INDEX traces_by_age ON traces (created_at);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('responses', 'responses_by_age', '1000000 100000 10 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1'),
    ('traces', 'sqlite_autoindex_traces_1', '10000 1000 1'),
    ('traces', 'traces_by_age', '10000 10');
ANALYZE sqlite_schema;
