-- The search for words and vectors, on PostgreSQL with the extension `vector`.

-- name: add_vectors
INSERT INTO chunk_vectors (number, chunk_set, file, vector) VALUES ($1, $2, $3, $4::float4[]::vector);

-- name: postings
-- Of each token in the JSON array $1, the slots of the chunks that it is in, in 4 bytes each.
SELECT token, (
    SELECT string_agg(int8send(number), '') FROM chunks WHERE words @@ token::tsquery
) FROM jsonb_array_elements_text($1::jsonb) token;
