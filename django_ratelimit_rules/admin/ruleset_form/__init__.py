"""The form of a ruleset: ``formset`` is its rules, ``fields`` their inputs, ``rows`` the rules that are not opened.

``summaries`` says a rule in one sentence. ``other_tiers`` are the rules beside those of the admin.
"""
