"""Runs the real OpenTofu or Terraform binary so that a crash of ours never becomes a guess.

Plain Python: neither Django nor Celery. The supervisor is a module of this package, therefore
nothing is imported here. Who builds a kind on it needs these:

* `binary.find`, `stack.Stack`: what runs, and what is provisioned;
* `plan.plan`, `apply.apply`, `verify.verify`: the three deeds;
* `observe.observe`: what may be believed about an apply whose worker is gone;
* `classify.classify`: the one table from what the tool did to what it means.

The order that makes a crash answerable, for the step that applies::

    prepare(stack, folder, lock=planfile.lock_file(restored))   # plain code, before the intent:
    ...the intent commits...                                    # a folder means "was here"
    apply(stack, folder, restored, sha256=..., module_sha256=...)
    observe(stack, folder, prior=...)                           # its reconcile

`folder` is named by job and attempt, and only the attempt itself ever creates it. It holds
secrets in clear (the plan, the tool's log), readable by the worker's user only: delete it when
the apply is over and told, never while it is uncertain.
"""
