-- Vector stores: their files, and the chunks of the files with their words and vectors.
--
-- The chunks of a store form a set with a number of its own. A chunk has the number `set * 2^32 + slot`; slots are
-- given once, in the order of saving. A set whose store was deleted, expired or is indexed anew is erased by upkeep.
CREATE TABLE chunk_sets (
    number integer PRIMARY KEY AUTOINCREMENT,
    next_slot integer NOT NULL DEFAULT 0,
    to_erase integer NOT NULL DEFAULT 0
);
CREATE INDEX chunk_sets_to_erase ON chunk_sets (number) WHERE to_erase = 1;

CREATE TABLE vector_stores (
    tenant text NOT NULL,
    id text NOT NULL,              -- ids rise with time, so lists are in their order
    name text NOT NULL,
    description text,
    metadata text NOT NULL,
    created_at integer NOT NULL,
    last_active_at integer NOT NULL,
    expires_after_days integer,
    expires_at integer,
    model text NOT NULL,
    dimensions integer NOT NULL,   -- of its vectors; 0: there are none
    chunk_set integer NOT NULL,
    version integer NOT NULL DEFAULT 0,       -- rises whenever a search may find something else
    next_file integer NOT NULL DEFAULT 1,     -- the number of the next file
    in_progress integer NOT NULL DEFAULT 0,   -- files by their status
    completed integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    cancelled integer NOT NULL DEFAULT 0,
    usage_bytes integer NOT NULL DEFAULT 0,
    is_expired integer NOT NULL DEFAULT 0,
    is_deleted integer NOT NULL DEFAULT 0,
    to_erase integer NOT NULL DEFAULT 0,      -- upkeep erases its files and batches
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX vector_stores_by_expiry ON vector_stores (expires_at)
    WHERE expires_at IS NOT NULL AND is_expired = 0 AND is_deleted = 0;
CREATE INDEX vector_stores_to_erase ON vector_stores (tenant, id) WHERE to_erase = 1;

CREATE TABLE vector_store_files (
    tenant text NOT NULL,
    store text NOT NULL,
    id text NOT NULL,              -- of the file
    number integer NOT NULL,       -- within the store, in the order of adding; a file that is added anew gets another
    filename text NOT NULL,
    created_at integer NOT NULL,
    chunk_tokens integer NOT NULL,
    overlap_tokens integer NOT NULL,
    attributes text NOT NULL,
    status text NOT NULL,
    error_code text,
    error_message text,
    usage_bytes integer NOT NULL DEFAULT 0,
    chunks integer NOT NULL DEFAULT 0,        -- saved so far
    batch text,
    PRIMARY KEY (tenant, store, id)
) WITHOUT ROWID;
CREATE INDEX vector_store_files_by_number ON vector_store_files (tenant, store, number);
CREATE INDEX vector_store_files_by_status ON vector_store_files (tenant, store, status, number);
CREATE INDEX vector_store_files_by_batch ON vector_store_files (tenant, store, batch, status, number)
    WHERE batch IS NOT NULL;
CREATE INDEX vector_store_files_by_id ON vector_store_files (tenant, id);

CREATE TABLE vector_file_batches (
    tenant text NOT NULL,
    store text NOT NULL,
    id text NOT NULL,
    created_at integer NOT NULL,
    is_cancelled integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, store, id)
) WITHOUT ROWID;

-- What a tenant has: stores, and bytes of all chunks with their vectors.
CREATE TABLE vector_usage (
    tenant text PRIMARY KEY,
    stores integer NOT NULL,
    bytes integer NOT NULL
) WITHOUT ROWID;

-- Chunks that were saved together: those with the slots from `first` on, of one file, in order.
CREATE TABLE chunk_portions (
    chunk_set integer NOT NULL,
    first integer NOT NULL,
    count integer NOT NULL,
    file integer NOT NULL,         -- its number
    ordinal integer NOT NULL,      -- of the first chunk
    lengths blob NOT NULL,         -- the number of terms of each chunk, in 4 bytes
    PRIMARY KEY (chunk_set, first)
) WITHOUT ROWID;
CREATE INDEX chunk_portions_by_file ON chunk_portions (chunk_set, file);

-- `words` are the tokens of the terms: see chunk_words.py.
CREATE TABLE chunks (
    number integer PRIMARY KEY,
    chunk_set integer NOT NULL,
    file integer NOT NULL,
    ordinal integer NOT NULL,
    text text NOT NULL,
    label text NOT NULL,
    words text NOT NULL
);
CREATE INDEX chunks_by_ordinal ON chunks (chunk_set, file, ordinal);

-- The words of the chunks: which chunks a token is in, and nothing else.
CREATE VIRTUAL TABLE chunk_words USING fts5 (
    words, content = '', detail = none, columnsize = 0, tokenize = 'ascii'
);
CREATE TRIGGER chunk_added AFTER INSERT ON chunks BEGIN
    INSERT INTO chunk_words (rowid, words) VALUES (new.number, new.words);
END;
CREATE TRIGGER chunk_erased AFTER DELETE ON chunks BEGIN
    INSERT INTO chunk_words (chunk_words, rowid, words) VALUES ('delete', old.number, old.words);
END;

-- The vectors of the chunks of a portion, one after another. `number` is that of its first chunk.
CREATE TABLE chunk_vectors (
    number integer PRIMARY KEY,
    vectors blob NOT NULL
);

-- As for responses: a tenant has many rows, an id has one.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('vector_stores', 'vector_stores', '10000 1000 1'),
    ('vector_store_files', 'vector_store_files', '1000000 100000 1000 1'),
    ('vector_store_files', 'vector_store_files_by_number', '1000000 100000 1000 1'),
    ('vector_store_files', 'vector_store_files_by_status', '1000000 100000 1000 500 1'),
    ('vector_store_files', 'vector_store_files_by_batch', '1000000 100000 1000 100 50 1'),
    ('vector_store_files', 'vector_store_files_by_id', '1000000 100000 1'),
    ('vector_file_batches', 'vector_file_batches', '10000 1000 10 1'),
    ('chunk_portions', 'chunk_portions', '1000000 10000 1'),
    ('chunk_portions', 'chunk_portions_by_file', '1000000 10000 10'),
    ('chunks', 'chunks_by_ordinal', '10000000 100000 100 1');
ANALYZE sqlite_schema;
