"""Mutation testing: does a test fail when the code is broken on purpose? See docs/mutation.md."""
