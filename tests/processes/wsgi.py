"""The site for WSGI servers. With RATELIMIT_TEST_ASK_EARLY it checks while it is imported: in the parent, if that
imports it before it forks."""

import os

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()

if os.environ.get("RATELIMIT_TEST_ASK_EARLY"):
    from tests.processes.urls import early

    early.check({})
