-- Files and uploads. Their content is in the blob store, as objects under random keys.
--
-- A blob is content that a tenant has stored once, however many of its files have it. Its object is deleted with
-- the last of them.
CREATE TABLE blobs (
    tenant text NOT NULL,
    hash text NOT NULL,            -- SHA-256 of the content
    key text NOT NULL,             -- of the object
    bytes integer NOT NULL,
    refs integer NOT NULL,         -- files with this content
    PRIMARY KEY (tenant, hash)
) WITHOUT ROWID;

CREATE TABLE files (
    tenant text NOT NULL,
    id text NOT NULL,              -- ids rise with time, so lists are in their order
    filename text NOT NULL,
    purpose text NOT NULL,
    media_type text NOT NULL,
    bytes integer NOT NULL,
    hash text NOT NULL,
    created_at integer NOT NULL,
    expires_at integer,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX files_by_purpose ON files (tenant, purpose, id);
CREATE INDEX files_by_expiry ON files (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE uploads (
    tenant text NOT NULL,
    id text NOT NULL,
    filename text NOT NULL,
    purpose text NOT NULL,
    media_type text NOT NULL,
    bytes integer NOT NULL,
    status text NOT NULL,          -- pending, completed, cancelled; a pending one expires by itself
    created_at integer NOT NULL,
    expires_at integer NOT NULL,
    file_lifetime integer,         -- seconds until the file expires
    file text,                     -- the file that it became
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX uploads_by_expiry ON uploads (expires_at);

CREATE TABLE upload_parts (
    tenant text NOT NULL,
    upload text NOT NULL,
    id text NOT NULL,
    key text NOT NULL,
    bytes integer NOT NULL,
    created_at integer NOT NULL,
    PRIMARY KEY (tenant, upload, id)
) WITHOUT ROWID;

-- Objects that no row above refers to: they are being written, or are to be deleted. Upkeep deletes each when it
-- is due. So an object that was left by a crash is found without listing the blob store.
CREATE TABLE unreferenced_objects (
    key text PRIMARY KEY,
    due_at real NOT NULL
) WITHOUT ROWID;
CREATE INDEX unreferenced_objects_due ON unreferenced_objects (due_at);

-- What a tenant has stored: blobs and parts of uploads count with their bytes.
CREATE TABLE file_usage (
    tenant text PRIMARY KEY,
    files integer NOT NULL,
    bytes integer NOT NULL
) WITHOUT ROWID;

-- The objects themselves, where the database is the blob store: pieces of one size; the last may be smaller.
CREATE TABLE object_pieces (
    key text NOT NULL,
    number integer NOT NULL,
    data blob NOT NULL,
    PRIMARY KEY (key, number)
);

-- As for responses: a tenant has many rows, an id has one.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('blobs', 'blobs', '1000000 100000 1'),
    ('files', 'files', '1000000 100000 1'),
    ('files', 'files_by_purpose', '1000000 100000 20000 1'),
    ('files', 'files_by_expiry', '1000000 10'),
    ('uploads', 'uploads', '100000 10000 1'),
    ('uploads', 'uploads_by_expiry', '100000 10'),
    ('upload_parts', 'upload_parts', '1000000 100000 40 1');
ANALYZE sqlite_schema;
