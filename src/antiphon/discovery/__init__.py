"""Models without configuration: model servers on this machine, and providers whose key is known."""
