-- What lists, filters and statistics of responses read, beside the response itself. NULL in older rows.
ALTER TABLE responses
    ADD COLUMN model text,
    ADD COLUMN key_id text,
    ADD COLUMN request_id text,
    ADD COLUMN background integer,
    ADD COLUMN tools text, -- names of the tools that were called: ' web_search mcp '
    ADD COLUMN input_preview text,
    ADD COLUMN output_preview text,
    ADD COLUMN upstream text,
    ADD COLUMN first_token_ms bigint,
    ADD COLUMN total_ms bigint,
    ADD COLUMN input_tokens bigint,
    ADD COLUMN cached_tokens bigint,
    ADD COLUMN output_tokens bigint,
    ADD COLUMN reasoning_tokens bigint,
    ADD COLUMN tool_calls bigint;

-- It begins like the index that it replaces, and holds what filters and sums read: rows are read for a page only.
DROP INDEX responses_by_age;
CREATE INDEX responses_by_age ON responses (tenant, created_at, id) INCLUDE (
    expires_at, status, model, key_id, request_id, background, conversation, tools,
    upstream, first_token_ms, total_ms, input_tokens, cached_tokens, output_tokens, reasoning_tokens, tool_calls
);

-- What was sent upstream for a response, and what came back: sealed and compressed.
CREATE TABLE traces (
    tenant text NOT NULL,
    response text NOT NULL,
    created_at bigint NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (tenant, response)
);
CREATE INDEX traces_by_age ON traces (created_at);
