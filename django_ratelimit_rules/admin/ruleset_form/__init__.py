"""The form of a ruleset: ``ruleset`` is its own fields, ``formset`` its rules, ``fields`` their inputs.

``rows`` are the rules that are not opened, and ``summaries`` says a rule in one sentence. ``guarded`` limits the rules
to what the user may change. ``other_tiers`` are the rules beside those of the admin.
"""
