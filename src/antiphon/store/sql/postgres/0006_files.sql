-- The tables of sqlite/0006_files.sql, which explains them, in the types of PostgreSQL.

CREATE TABLE blobs (
    tenant text NOT NULL,
    hash text NOT NULL,
    key text NOT NULL,
    bytes bigint NOT NULL,
    refs bigint NOT NULL,
    PRIMARY KEY (tenant, hash)
);

CREATE TABLE files (
    tenant text NOT NULL,
    id text NOT NULL,
    filename text NOT NULL,
    purpose text NOT NULL,
    media_type text NOT NULL,
    bytes bigint NOT NULL,
    hash text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX files_by_purpose ON files (tenant, purpose, id);
CREATE INDEX files_by_expiry ON files (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE uploads (
    tenant text NOT NULL,
    id text NOT NULL,
    filename text NOT NULL,
    purpose text NOT NULL,
    media_type text NOT NULL,
    bytes bigint NOT NULL,
    status text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    file_lifetime bigint,
    file text,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX uploads_by_expiry ON uploads (expires_at);

CREATE TABLE upload_parts (
    tenant text NOT NULL,
    upload text NOT NULL,
    id text NOT NULL,
    key text NOT NULL,
    bytes bigint NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (tenant, upload, id)
);

CREATE TABLE unreferenced_objects (
    key text PRIMARY KEY,
    due_at double precision NOT NULL
);
CREATE INDEX unreferenced_objects_due ON unreferenced_objects (due_at);

CREATE TABLE file_usage (
    tenant text PRIMARY KEY,
    files bigint NOT NULL,
    bytes bigint NOT NULL
);

-- Stored outside the row and not compressed: most files are compressed already.
CREATE TABLE object_pieces (
    key text NOT NULL,
    number bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (key, number)
);
ALTER TABLE object_pieces ALTER COLUMN data SET STORAGE EXTERNAL;
