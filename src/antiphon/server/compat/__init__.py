"""Doors for clients of other APIs. The engine behind them is the same: a body becomes a `CreateResponse`."""
