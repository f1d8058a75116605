"""One open alert per cause."""
