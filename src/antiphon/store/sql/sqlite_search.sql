-- The search for words and vectors, on SQLite.

-- name: add_vectors
INSERT INTO chunk_vectors (number, vectors) VALUES ($1, $2);

-- name: postings
-- Of each token in the JSON array $2, the slots of the chunks that it is in.
SELECT token.value, (
    SELECT group_concat(rowid & 4294967295) FROM chunk_words WHERE chunk_words MATCH token.value
) FROM json_each($1) token;

-- name: vectors_of_portions
SELECT number, vectors FROM chunk_vectors WHERE number IN (SELECT value FROM json_each($1));
