"""The console's one language."""
