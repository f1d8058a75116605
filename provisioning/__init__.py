"""Infrastructure capabilities, one small app each."""
