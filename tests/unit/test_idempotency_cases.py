"""The edge cases of Idempotency-Key, by the numbers of the contract, and the tests that hold them.

Left out are those of what is not built: a lease that somebody takes over, boundaries that work
crosses (an endpoint that would call outside enqueues instead), sealed answers (a secret is told
once and not kept), and CORS.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LEFT_OUT = {"I-06": "lease", "I-46": "boundary", "I-67": "CORS", "I-80": "lease"}
CASES = {
    "I-01": "idempotency: sixty_four_first_requests_make_one_job",
    "I-02": "idempotency_races: while_one_is_at_work_the_others_are_told_to_come_back",
    "I-03": "idempotency_races: a_process_that_dies_before_the_commit_leaves_nothing_and_the_retry_"
    "works",
    "I-04": "idempotency_races: a_process_that_dies_after_the_commit_is_repeated",
    "I-05": "idempotency_races: a_process_that_dies_before_the_commit_leaves_nothing_and_the_retry_"
    "works",
    "I-07": "idempotency_races: of_twelve_who_find_an_expired_record_one_does_the_work, "
    "whoever_finds_it_expired_leaves_alone_what_replaced_it_meanwhile",
    "I-08": "idempotency_races: a_record_that_vanishes_between_two_looks_is_made_anew, "
    "a_record_that_is_pruned_while_it_is_looked_for_is_made_anew",
    "I-09": "idempotency_races: work_that_met_a_deadlock_is_done_again, "
    "work_that_meets_deadlocks_for_ever_is_given_up_and_the_key_is_free",
    "I-10": "acceptance/api_cut_off: who_hangs_up_while_the_job_is_made_finds_it_made",
    "I-11": "idempotency_same: the_clock_of_the_web_process_plays_no_part",
    "I-12": "acceptance/api: sixty_four_with_one_key_at_once_in_several_processes_make_one_job",
    "I-20": "idempotency_same: another_way_to_say_the_same_gets_the_same_answer",
    "I-21": "idempotency_same: large_integers_that_a_float_would_mix_up_are_told_apart, "
    "another_request_under_the_same_key_is_refused",
    "I-22": "errors: a_request_that_cannot_be_meant_is_told_so",
    "I-23": "idempotency_same: another_way_to_say_the_same_gets_the_same_answer, "
    "another_request_under_the_same_key_is_refused",
    "I-24": "idempotency_same: a_key_is_another_in_another_workspace, "
    "another_request_under_the_same_key_is_refused",
    "I-25": "idempotency_same: another_request_under_the_same_key_is_refused",
    "I-26": "idempotency_same: another_way_to_say_the_same_gets_the_same_answer",
    "I-27": "idempotency_same: without_its_slash_an_address_is_not_found_and_the_key_is_free",
    "I-28": "idempotency_same: a_record_is_compared_in_the_way_it_was_made",
    "I-30": "idempotency_same: somebody_elses_key_is_nothing_to_me, "
    "each_gets_their_own_answer_again",
    "I-31": "idempotency_same: a_new_token_of_the_account_repeats_what_the_old_one_began",
    "I-32": "idempotency_same: who_lost_the_right_is_not_told_the_answer_again",
    "I-33": "idempotency_same: who_may_not_come_in_any_more_is_not_told_the_answer_again",
    "I-34": "idempotency_same: without_a_token_a_key_leaves_nothing",
    "I-35": "idempotency_same: what_is_no_key_is_refused_and_leaves_nothing",
    "I-36": "integration/webhooks/api: a_rotated_secret_is_told_once",
    "I-37": "idempotency_same: somebody_elses_key_is_nothing_to_me",
    "I-40": "idempotency_same: without_a_token_a_key_leaves_nothing",
    "I-41": "idempotency_same: who_was_told_to_wait_may_use_the_key_afterwards; "
    "idempotency_answers: what_left_nothing_behind_leaves_the_key_unused",
    "I-42": "idempotency_answers: a_corrected_body_may_use_the_key_of_the_wrong_one",
    "I-43": "idempotency_answers: what_left_nothing_behind_leaves_the_key_unused",
    "I-44": "idempotency_answers: a_refusal_by_the_state_of_things_is_kept_and_asks_for_a_new_key",
    "I-45": "idempotency_answers: what_left_nothing_behind_leaves_the_key_unused",
    "I-47": "idempotency_answers: a_unique_name_is_repeated_and_not_refused_as_taken",
    "I-48": "idempotency_answers: a_deletion_is_repeated_although_the_thing_is_gone",
    "I-49": "idempotency_races: a_wake_that_nobody_could_send_changes_no_answer",
    "I-50": "acceptance/api_cut_off: an_edge_that_answers_for_us_costs_no_second_job",
    "I-60": "idempotency_same: another_way_to_say_the_same_gets_the_same_answer",
    "I-61": "idempotency_same: what_is_no_key_is_refused_and_leaves_nothing",
    "I-62": "idempotency_same: a_key_on_a_read_is_ignored",
    "I-63": "idempotency_answers: a_repetition_has_the_same_status_bytes_and_headers_and_its_own_"
    "request_id",
    "I-64": "idempotency_answers: a_repetition_has_the_same_status_bytes_and_headers_and_its_own_"
    "request_id",
    "I-65": "idempotency_answers: what_is_kept_is_repeated_whatever_is_accepted_by_then",
    "I-66": "idempotency_answers: an_answer_that_cannot_be_kept_is_a_fault_and_undone",
    "I-68": "idempotency_races: while_one_is_at_work_the_others_are_told_to_come_back",
    "I-70": "idempotency_answers: an_expired_key_is_new_but_the_jobs_own_key_still_holds",
    "I-71": "idempotency_answers: pruning_takes_what_has_expired_in_bounded_transactions; "
    "idempotency_races: pruning_passes_over_a_record_that_somebody_holds",
    "I-72": "idempotency_answers: a_key_lives_for_a_day_and_a_repetition_does_not_prolong_it",
    "I-73": "idempotency_answers: record_and_job_go_without_each_other",
    "I-81": "idempotency_answers: a_transaction_around_every_request_is_refused_at_start",
    "I-82": "idempotency_races: a_database_out_of_reach_is_told_before_anything_is_done",
    "I-83": "idempotency_races: while_one_is_at_work_the_others_are_told_to_come_back",
}
_RANGES = ((1, 12), (20, 28), (30, 37), (40, 50), (60, 68), (70, 73), (80, 83))


@cache
def written_in(name: str) -> frozenset[str]:
    folder, _, file = f"integration/api/{name}".rpartition("/")
    if "/" in name:
        folder, _, file = name.rpartition("/")
    tree = ast.parse((TESTS / folder / f"test_{file}.py").read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_each_case_of_the_contract_is_held_or_left_out_for_a_reason() -> None:
    numbers = {f"I-{n:02}" for first, last in _RANGES for n in range(first, last + 1)}
    assert numbers == CASES.keys() | LEFT_OUT.keys()
    assert not CASES.keys() & LEFT_OUT.keys()


@pytest.mark.parametrize("case", CASES)
def test_the_tests_of_a_case_are_there(case: str) -> None:
    for held in CASES[case].split("; "):
        name, _, tests = held.partition(": ")
        assert {f"test_{test}" for test in tests.split(", ")} <= written_in(name)
