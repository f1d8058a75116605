"""The kernel under every interleaving: a machine that picks who acts next, and what must hold then.

``process``  a worker that runs the real runner in a thread of its own, a hop at a time
``weave``    the kinds it runs: steps of all four effects, each told how it ends
``outside``  the provider: what happened there, under which key, and what it remembers
``model``    what the record must say, in plain Python, with ``course`` (a worker) and ``verbs``
``record``   what the database says, and what may never be seen there
``machine``  the rules: who may act, and how the model and the database are compared after each
"""
