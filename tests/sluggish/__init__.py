"""An app whose part in a worker's child takes its time to start."""
