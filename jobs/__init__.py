"""The kernel: durable jobs."""
