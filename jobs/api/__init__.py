"""Jobs over HTTP: adapters of the same services that the console and the commands call."""
