-- A trace is stored as bytes, which this column takes. Those that were stored as text have an older format, which
-- cannot be read.
DELETE FROM traces;
