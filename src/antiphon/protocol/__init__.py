"""The wire types of the Responses API: values only, no I/O, no clock, no ids of their own."""
