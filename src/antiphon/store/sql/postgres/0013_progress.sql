-- What the attempts at an unfinished response have used so far, for the next one: JSON. NULL: nothing yet.
ALTER TABLE responses ADD COLUMN progress text;
