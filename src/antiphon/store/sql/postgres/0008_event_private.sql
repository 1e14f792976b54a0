-- The private sides of the items that end in a row of the log: a JSON object of item ids. The next attempt at a
-- response that broke off shows them to the model; clients that follow the log are not sent them.
ALTER TABLE events ADD COLUMN private text;
