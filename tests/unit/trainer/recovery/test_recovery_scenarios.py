# SPDX-License-Identifier: Apache-2.0
"""Which test shows each scenario of recovery, by its number, and what of them no test shows, and why.

A scenario is shown on the lowest rung that proves it: rules that are compiled and verdicts are pure functions, what
Kubernetes does with the rules is tried on the real Job and JobSet controllers, and processes on the local cluster.
"""

import re

import pytest

from tests.repository import ROOT
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.controller.trainer.assembly.parts import rights
from trainwright.controller.trainer.assembly.settings import settings_of
from trainwright.plugins.registry import Registry, built_in

_PLUGIN = "tests/unit/plugins/test_recovery.py"
_ATTEMPTS = "tests/unit/trainer/recovery/test_attempts.py"
_CAUSES = "tests/unit/trainer/recovery/test_recovery_causes.py"
_VERDICT = "tests/unit/trainer/recovery/test_verdict.py"
_LOST = "tests/unit/trainer/recovery/test_lost_nodes.py"
_NODES = "tests/unit/trainer/recovery/test_nodes.py"
_WORDS = "tests/unit/trainer/test_last_words.py"
_LOCAL = "tests/integration/local/node/test_local_node_recovery.py"
_JUDGED = "tests/integration/local/node/test_local_node_verdict.py"
_RESUME = "tests/integration/local/node/test_resume.py"
_RULES = "tests/integration/local/controllers/test_recovery_rules.py"
_CHECKPOINTS = "tests/unit/progress/test_checkpoints.py"
_WORLDS = "tests/simulation/test_simulation_recovery.py"
_LIVES = "tests/simulation/test_simulation_attempts.py"
_STALL = "tests/unit/trainer/test_stall.py"
_SOAK = "tests/soak/recovery.py"
_REFUSED = f"{_PLUGIN}::test_annotations_that_are_refused"
SHOWN = {
    1: f"{_PLUGIN}::test_over_each_shipped_runtime_nothing_else_changes",
    2: f"{_PLUGIN}::test_jobs_that_do_not_ask_are_as_without_the_plugin",
    3: f"{_PLUGIN}::test_rules_of_the_runtime_for_its_pods_are_kept",
    4: f"{_PLUGIN}::test_the_annotation_of_the_job_goes_before_that_of_the_runtime_and_the_configuration",
    5: f"{_PLUGIN}::test_the_same_change_twice_changes_nothing",
    6: f"{_ATTEMPTS}::test_a_failure_that_kubernetes_restarts_is_put_on_record",
    7: f"{_VERDICT}::test_failures_in_a_row_use_up_the_retries",
    8: f"{_JUDGED}::test_the_same_failure_three_times_ends_the_job",
    9: f"{_ATTEMPTS}::test_progress_after_each_failure_goes_on_for_long",
    10: f"{_RULES}::test_what_the_end_of_one_rank_costs",
    11: f"{_RULES}::test_what_the_end_of_one_rank_costs",
    12: f"{_CAUSES}::test_the_cause_by_what_is_shown",
    13: f"{_CAUSES}::test_an_eviction_counts_also_if_it_is_seen_after_the_failure_of_a_peer",
    14: f"{_ATTEMPTS}::test_a_wrong_charge_is_corrected_by_a_new_jobset",
    15: f"{_JUDGED}::test_a_pod_that_is_deleted_costs_no_retry",
    16: f"{_CHECKPOINTS}::test_a_rank_of_an_earlier_attempt_that_was_cut_off_changes_nothing",
    17: f"{_LOST}::test_a_pod_has_its_grace_and_a_minute",
    18: f"{_ATTEMPTS}::test_a_charge_is_taken_back_when_a_node_turns_out_to_be_lost",
    19: f"{_LOST}::test_a_node_that_answers_keeps_its_pod",
    20: f"{_CAUSES}::test_the_cause_by_what_is_shown",
    21: f"{_CAUSES}::test_the_cause_by_what_is_shown",
    22: f"{_WORDS}::test_torchrun_sums_up_what_its_processes_did",
    23: f"{_RESUME}::test_the_model_is_that_of_a_calm_run",
    24: f"{_CAUSES}::test_the_same_culprit_in_any_order_of_pods",
    25: f"{_RULES}::test_ranks_that_fail_together_cost_one_retry",
    26: "tests/bench/recovery.py",
    27: f"{_ATTEMPTS}::test_kubernetes_keeps_the_last_word_where_a_rule_ended_the_job",
    28: f"{_RULES}::test_initializers_run_again_after_a_restart",
    29: f"{_ATTEMPTS}::test_pods_that_wait_are_no_attempt",
    30: f"{_LOCAL}::test_the_record_says_where_each_rank_hung",
    31: f"{_ATTEMPTS}::test_three_hangs_at_one_step_end_the_job",
    32: f"{_ATTEMPTS}::test_which_standstill_restarts_the_ranks",
    33: f"{_ATTEMPTS}::test_which_standstill_restarts_the_ranks",
    34: f"{_STALL}::test_a_manager_that_was_away_during_a_standstill_counts_anew",
    35: _SOAK,
    36: f"{_ATTEMPTS}::test_a_hang_is_charged_and_its_pods_are_gone_before_the_next_attempt",
    37: f"{_VERDICT}::test_pauses_grow_without_progress",
    38: f"{_ATTEMPTS}::test_the_next_attempt_is_held_back_unless_it_runs_already",
    39: f"{_LIVES}::test_a_suspension_while_the_next_attempt_is_held_back_keeps_the_counts",
    40: f"{_LIVES}::test_a_deadline_that_passes_while_an_attempt_is_held_back_ends_the_job",
    41: f"{_ATTEMPTS}::test_suspensions_count_nothing_and_the_resume_is_the_next_attempt",
    42: f"{_LOCAL}::test_a_node_with_broken_hardware_is_left_for_others",
    43: f"{_NODES}::test_when_a_job_stays_on_a_suspect_node",
    44: f"{_ATTEMPTS}::test_volumes_that_go_with_the_jobset_let_kubernetes_decide",
    45: f"{_RULES}::test_jobset_refuses_a_claim_that_was_retained",
    46: f"{_WORLDS}::test_worlds_whose_jobs_recover",
    47: f"{_WORLDS}::test_worlds_whose_jobs_recover",
    48: f"{_ATTEMPTS}::test_a_lost_record_has_no_lower_counts_than_the_jobset",
    49: f"{_ATTEMPTS}::test_a_jobset_that_a_user_deletes_takes_its_attempt_along",
    50: f"{_LIVES}::test_a_jobset_that_is_gone_before_the_job_is_told_of_its_end_leaves_the_record",
    51: f"{_ATTEMPTS}::test_a_manager_that_was_away_charges_as_kubernetes_did",
    52: f"{_LIVES}::test_a_manager_without_recovery_takes_over",
    53: f"{_RULES}::test_an_eviction_of_an_mpi_node_is_free_and_both_jobs_are_made_again",
    54: f"{_ATTEMPTS}::test_the_record_of_many_attempts_stays_small",
    55: f"{_CHECKPOINTS}::test_a_torn_file_counts_as_none",
    56: f"{_PLUGIN}::test_each_trainer_is_told_where_its_checkpoints_are",
    57: f"{_RESUME}::test_a_training_goes_on_after_the_cluster_was_down",
    58: "tests/unit/trainer/recovery/test_recovery_scenarios.py::test_rights_to_end_pods_come_with_the_gate_alone",
    59: f"{_LIVES}::test_jobs_that_lose_one_node_ask_little_each_and_do_not_wait_for_each_other",
    **dict.fromkeys((60, 61, 62, 63, 65, 66), _REFUSED),
    64: f"{_PLUGIN}::test_a_restart_of_stalled_ranks_needs_a_time",
    67: f"{_PLUGIN}::test_annotations_without_effect_are_warned_of",
    68: "tests/e2e/faults/pods.py",
    69: _REFUSED,
}
"""A test, or a program, that shows it."""
PARTLY = {
    28: "the record does not say that initializers ran again: a restart always runs them",
    45: "JobSet 0.12 refuses a new JobSet with a claim that was retained, so such a job keeps its JobSet",
    52: "by a manager without the gate, which makes the same objects as Kubeflow's by the recorded cases",
    53: "a launcher that ends before its node is seen to have ended is shown as a cause alone; MPI itself does not run",
    59: "with 20 jobs for 1,000, since such worlds take minutes; what a job asks for does not depend on the number",
    68: "no warning when the job is created: the manager reads no claims, and a claim may be made after the job",
}
"""What of a scenario is not shown, and why."""
SCENARIOS = range(1, 70)


def test_every_scenario_is_shown() -> None:
    assert sorted(SHOWN) == list(SCENARIOS)
    assert PARTLY.keys() <= SHOWN.keys()


@pytest.mark.parametrize("place", sorted(set(SHOWN.values())))
def test_what_shows_a_scenario_exists(place: str) -> None:
    path, _, name = place.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert not name or re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE)


def test_rights_to_end_pods_come_with_the_gate_alone() -> None:
    """Scenario 58: beside those of the gate `Explain`, which looks at nodes too."""

    def granted(*, on: bool) -> set[tuple[str, str]]:
        settings = settings_of(Configuration(feature_gates={"Recovery": on, "Explain": True}))
        found = rights(settings, Registry.load(settings.plugins, built_in()), "kubeflow-system").on_jobs
        return {(rule.resource, verb) for rule in found for verb in rule.verbs}

    added = granted(on=True) - granted(on=False)
    assert added == {("pods/status", "patch"), ("pods", "delete")}
