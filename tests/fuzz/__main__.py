"""Coverage-guided fuzzing, by hand: ``python -m tests.fuzz rules -max_total_time=60`` (``pip install atheris`` first).

The targets are the suite's own property tests, so a failure here also fails there. libFuzzer's options follow the
target. A folder as the last argument keeps the corpus between runs.
"""

from __future__ import annotations

import os
import sys

import atheris

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

with atheris.instrument_imports(include=["django_ratelimit_rules", "yaml"]):
    import django

    django.setup()

    from tests.engine import test_plans
    from tests.hostile import test_loading, test_texts

TARGETS = {
    "rules": test_loading.test_a_rule_is_made_or_refused_and_one_that_is_made_plans_every_call,
    "rows": test_loading.test_a_row_is_clean_or_refused_by_its_fields,
    "files": test_loading.test_a_file_of_rules_is_read_or_refused_with_its_line,
    "texts": test_loading.test_any_text_at_all_is_read_or_refused,
    "identifiers": test_loading.test_an_identifier_is_taken_or_refused_as_a_mistake_in_code,
    "keys": test_plans.test_keys_are_short_ascii_and_leave_the_hash_tag_alone,
    "pairs": test_plans.test_two_value_lists_share_a_key_only_when_they_are_the_same,
    "errors": test_texts.test_an_error_that_quotes_a_client_stays_on_its_line,
}


def main() -> None:
    """Fuzz one target until libFuzzer ends or the target fails."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"name a target: {', '.join(TARGETS)}")
    fuzz = TARGETS[name].hypothesis.fuzz_one_input
    atheris.Setup([sys.argv[0], *sys.argv[2:]], fuzz)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
