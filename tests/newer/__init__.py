"""The drills' app as its next release has it: a kind more, and a parameter more."""
