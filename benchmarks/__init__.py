"""How fast Firedoor is beside its peers, on the same servers and the same processors.

``make bench`` runs it; docs/benchmarks.md says what each figure means and what it does not show.
The package is also an app like any user's own (FIREDOOR_EXTRA_APPS): the kinds that are measured.
"""
