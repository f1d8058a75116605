"""What every API shares: who calls, what an error looks like, pages, and one answer per key."""
