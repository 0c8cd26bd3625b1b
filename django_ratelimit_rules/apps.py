"""The app's configuration. Connects metrics, log lines, sign-in outcomes and the refresher. Loads no rule."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class RatelimitRulesConfig(AppConfig):
    """The configuration that Django finds by default."""

    name = "django_ratelimit_rules"
    label = "django_ratelimit_rules"
    verbose_name = _("Rate limits")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect the listeners."""
        from . import checks, signals
        from .http import settling
        from .legacy import divergence
        from .monitoring import exceeding_clients, last_hour, log_lines, metrics, recording
        from .rulesets import refresh

        signals.checked.observers = (metrics.count_check, log_lines.log_check, exceeding_clients.note)
        signals.failed.observers = (metrics.count_error, log_lines.log_failure)
        signals.compared.observers = (metrics.count_comparison, log_lines.log_comparison, divergence.count)
        signals.near_limit.observers = (metrics.count_near,)
        metrics.connect()
        last_hour.connect()
        exceeding_clients.connect()
        divergence.connect()
        recording.connect()
        settling.connect()
        refresh.connect()
        checks.connect()
