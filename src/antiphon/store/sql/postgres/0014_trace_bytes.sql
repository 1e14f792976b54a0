-- A trace is stored as bytes. Those that were stored as text have an older format, which cannot be read.
DELETE FROM traces;
ALTER TABLE traces ALTER COLUMN data TYPE bytea USING ''::bytea;
