"""The site for WSGI servers.

With RATELIMIT_TEST_ASK_EARLY it checks during its import, in the parent if the parent imports it before it forks.
"""

import os

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()

if os.environ.get("RATELIMIT_TEST_ASK_EARLY"):
    from tests.processes.urls import early

    early.check({})
