-- What clients are never shown. An item's private side is a JSON object of the members that the model sees in
-- place of the public ones, or an envelope that holds one. The secrets of declared tools are always sealed.
ALTER TABLE items ADD COLUMN private text;
ALTER TABLE responses ADD COLUMN sealed_tools text;
