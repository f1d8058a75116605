"""What does an outcome say to a person? What happened, and what to do next. Names no secret.

Between the two stands what was not done, which follows from the outcome's class.
"""

from __future__ import annotations

_NEW_PLAN = "Make a new plan and have it approved."
_LATER = "Try again later."
_RECONCILE = (
    "Do not apply again. Wait until nothing of it runs, compare the event ledger and the state "
    "with the provider, then record what happened."
)

SENTENCES: dict[str, tuple[str, str]] = {
    # ok
    "initialised": ("The folder is ready.", ""),
    "planned": ("The plan was made; nothing was changed yet.", ""),
    "no_changes": ("The plan is empty; nothing is to be done.", ""),
    "changes_present": ("There are changes; no plan file was asked for.", ""),
    "applied": ("The plan was applied and the state was saved.", ""),
    # transient: nothing was changed, the same call may succeed later
    "plan_crashed_or_artifact_missing": (
        "The plan ended without a usable plan file.",
        f"{_LATER} A crashed plan may have left a lock on a remote state.",
    ),
    "init_crashed": ("Preparing the folder ended without an answer.", _LATER),
    "interrupted": ("It was interrupted before anything began.", _LATER),
    "state_locked": ("Somebody else holds the state lock.", _LATER),
    "backend_unavailable": ("The state backend did not answer.", _LATER),
    "registry_unavailable": (
        "The provider registry did not answer.",
        f"{_LATER} Where there is no network, install providers from a mirror.",
    ),
    # terminal: nothing was changed, somebody has to change something first
    "binary_missing": ("The tool could not be executed.", "Install it on this worker."),
    "never_started": (
        "The apply never started: the tool could not be executed, or it was forbidden to.",
        "Check the tool on this worker, then apply in a fresh folder.",
    ),
    "canceled": ("It was stopped on request before anything began.", ""),
    "stream_unsupported": (
        "The tool speaks a log format that is not known here.",
        "Use a supported version of it.",
    ),
    "tool_version": (
        "The module wants another version of the tool.",
        "Install that version, or change required_version.",
    ),
    "config_invalid": ("The module is not valid.", "Correct the module, then retry."),
    "variable_missing": ("A required variable has no value.", "Give it, then retry."),
    "variable_undeclared": (
        "The module does not declare a variable that was given.",
        "Correct the variable's name.",
    ),
    "variable_invalid": ("A variable's value was refused.", "Correct it, then retry."),
    "variable_changed": ("A variable differs from the one in the plan.", _NEW_PLAN),
    "condition_failed": (
        "A condition of the module does not hold.",
        "Read its message; correct the input, the module or the real thing.",
    ),
    "not_initialised": (
        "The folder lacks a provider, a module or the backend.",
        "Prepare a fresh folder; commit the module's lock file.",
    ),
    "state_corrupt": (
        "The state cannot be read.",
        "Restore it from a backup; plans made before are void then.",
    ),
    "state_lock_failed": (
        "The state lock could not be taken, for a reason that is not known here.",
        "Read the tool's message.",
    ),
    "lineage_regression": (
        "The backend gave another or an older state than this stack has recorded; a plan from "
        "it would create everything again.",
        "Check the backend's address and its backups.",
    ),
    "backend_auth": (
        "The state backend refused the credentials.",
        "Renew them, then retry.",
    ),
    "runner_disk": ("The worker's disk is full.", "Free space, then retry."),
    "plan_write_failed": (
        "The plan file could not be written.",
        "Check the worker's disk, then retry.",
    ),
    "plan_unreadable": ("The plan file is missing or damaged.", _NEW_PLAN),
    "plan_errored": ("The plan was made with an error.", _NEW_PLAN),
    "plan_stale": ("Somebody else changed the state after the plan was made.", _NEW_PLAN),
    "plan_lineage_mismatch": (
        "The plan belongs to another state.",
        f"Check the backend's address. {_NEW_PLAN}",
    ),
    "plan_tool_version_mismatch": (
        "The plan was made by another version of the tool.",
        f"Use that version. Or: {_NEW_PLAN}",
    ),
    "plan_inconsistent": ("The plan's content contradicts itself.", _NEW_PLAN),
    "unclassified": (
        "The tool refused, with a message that is not known here.",
        "Read the message.",
    ),
    # partial
    "apply_partial": (
        "Some resources were changed, then one failed; the state says which. What came after it "
        "was not done.",
        "The plan is void: correct the cause and make a new plan.",
    ),
    "canceled_partial": (
        "It was interrupted after it had begun; the state says what was done. The rest was not.",
        "The plan is void: make a new plan.",
    ),
    "lock_not_released": (
        "All that had begun was done and the state was saved, but its lock could not be released.",
        "Release the lock once nothing runs on this state. A fresh plan that is empty proves the "
        "success.",
    ),
    # uncertain
    "lost": ("The apply is gone and left no exit code.", _RECONCILE),
    "orphaned": (
        "The supervisor of the apply is gone and something of the apply is alive; how it ends "
        "will not be recorded.",
        _RECONCILE,
    ),
    "still_running": (
        "The apply did not end in its time; it goes on, supervised.",
        "Do not apply again. Look again later.",
    ),
    "crashed": ("The apply was killed or crashed.", _RECONCILE),
    "hard_interrupted": ("The apply was interrupted twice and gave up at once.", _RECONCILE),
    "applied_without_log": (
        "The apply says it succeeded, but its log is incomplete.",
        "Do not apply again. A fresh plan that is empty proves the success.",
    ),
    "log_incomplete": ("The apply failed and its log does not say why.", _RECONCILE),
    "state_not_persisted": (
        "Resources were changed, but the state could not be saved.",
        "Do not apply again: that forks the state. Push errored.tfstate, then make a new plan.",
    ),
    "stale_after_own_attempt": (
        "The state moved after an earlier apply of ours had begun.",
        _RECONCILE,
    ),
    "locked_after_own_attempt": (
        "The state is locked, perhaps still by an earlier apply of ours.",
        _RECONCILE,
    ),
    "failed_after_own_attempt": (
        "This apply changed nothing, but an earlier one of ours had begun.",
        _RECONCILE,
    ),
}
