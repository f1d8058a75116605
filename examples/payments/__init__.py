"""A payment provider on this machine, and the job kinds that use it.

Guides, conformance and drills run on it: the provider is a real HTTP server that keeps a ledger of
what it did, so that "charged once" is counted where the money would have moved.
"""
