"""``manage.py prepare``: create tables, accounts and rules."""

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import BaseCommand, call_command

from demo import rules
from demo.people import ADMIN, COLLEAGUES, PERMISSIONS, WITH_PASSWORD


class Command(BaseCommand):
    """Make the database ready. Existing accounts and rulesets stay unchanged."""

    help = "Create missing tables, accounts and rules of the example site."

    def handle(self, **options: object) -> None:
        """Run migrations, then write missing accounts and rulesets."""
        call_command("migrate", verbosity=0)
        users = get_user_model().objects
        if not users.filter(username=ADMIN).exists():
            users.create_superuser(ADMIN, password=ADMIN)
        for username in COLLEAGUES:
            if not users.filter(username=username).exists():
                password = username if username in WITH_PASSWORD else None
                user = users.create_user(username, password=password, is_staff=username in PERMISSIONS)
                rights = Permission.objects.filter(content_type__app_label="django_ratelimit_rules")
                user.user_permissions.set(rights.filter(codename__in=PERMISSIONS.get(username, ())))
        rules.install()
        self.stdout.write(f"Database ready: {users.count()} accounts, {len(rules.RULESETS)} limiters.")
