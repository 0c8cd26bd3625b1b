"""The form of a ruleset: ``ruleset`` is its own fields, ``formset`` its rules, ``fields`` their inputs.

``rows`` shows the line of every rule, and ``summaries`` describes a rule in one sentence. ``guarded`` limits the rules
to the changes that the user may make. ``other_tiers`` shows the rules of the file and of code. ``script_words`` has the
texts of the scripts.
"""
