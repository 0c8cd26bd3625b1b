"""What the app tells whoever listens: metrics and log lines of its own, and receivers of the project.

``checked``
    After each check. ``sender`` is the class Limiter; ``limiter`` the limiter's name; ``result`` the Result;
    ``ruleset`` the engine.Ruleset that decided; ``plan`` the engine.Plan of the call, whose first hits are those of the
    result's evaluations, or None when a callable failed; ``seconds`` (float) the time the check took.
``failed``
    After a check that failed and was answered by the failure mode. ``limiter`` is the limiter's name; ``error`` the
    exception; ``failure_mode`` the mode that answered.
``compared``
    After a comparison with a legacy limiter. ``limiter`` is the limiter's name; ``result`` the Result of the dry run;
    ``legacy_blocked`` what the legacy limiter said; ``agreement`` ``"match"`` or ``"diverge"``; ``boundary`` whether it
    was within a second of a clock-aligned edge of a window.
``rules_changed``
    When rows of Ruleset or Rule were written through Django. ``sender`` is the model; ``using`` the database alias.
    The change is not committed yet.
``rules_loaded``
    When other rules are in force in this process: loaded, overridden or expired; ``rulesets.in_force()`` tells which.

An exception in a receiver never changes a decision. Receivers of ``checked``, ``failed`` and ``compared`` run on the
request's thread or event loop and must be quick and synchronous.
"""

from django.dispatch import Signal

checked = Signal(use_caching=True)
failed = Signal(use_caching=True)
compared = Signal(use_caching=True)
rules_changed = Signal()
rules_loaded = Signal()
