"""What tests of several parts share: real things, small."""
