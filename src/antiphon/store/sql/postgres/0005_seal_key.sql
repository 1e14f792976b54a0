-- The fingerprint of the sealing key of this database, in one row, so that a server with another key notices it.
CREATE TABLE seal_key (
    id integer PRIMARY KEY CHECK (id = 1),
    fingerprint text NOT NULL
);
