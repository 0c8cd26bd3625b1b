"""Settings of the tests.

They choose the servers' ports and pass them to subprocesses. conftest starts the servers.
``RATELIMIT_TEST_DATABASE=postgresql`` runs the tests on PostgreSQL instead of SQLite. Processes with their own file
(``RATELIMIT_TEST_DB``) still use that file.
"""

import os
import tempfile

from tests.servers import free_port

# In parallel runs each worker has its own servers, separate from those of its parent process.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
if os.environ.get("RATELIMIT_TEST_WORKER", "") != WORKER:
    os.environ["RATELIMIT_TEST_WORKER"] = WORKER
    os.environ.pop("RATELIMIT_TEST_REDIS_URL", None)
    os.environ.pop("RATELIMIT_TEST_POSTGRESQL", None)
REDIS_URL = os.environ.setdefault("RATELIMIT_TEST_REDIS_URL", f"redis://127.0.0.1:{free_port()}")

SECRET_KEY = "tests-only"
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "tests.urls"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_prometheus",
    "django_ratelimit_rules",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("RATELIMIT_TEST_DB", ":memory:")}
}
POSTGRESQL_FOLDER = None
if os.environ.get("RATELIMIT_TEST_DATABASE") == "postgresql" and "RATELIMIT_TEST_DB" not in os.environ:
    POSTGRESQL_FOLDER = os.environ.get("RATELIMIT_TEST_POSTGRESQL") or tempfile.mkdtemp(prefix="rl")
    os.environ["RATELIMIT_TEST_POSTGRESQL"] = POSTGRESQL_FOLDER
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "tests",
        "USER": "tests",
        "HOST": POSTGRESQL_FOLDER,
    }
CACHES = {
    "default": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": f"{REDIS_URL}/0",
        "OPTIONS": {"SOCKET_TIMEOUT": 5, "SOCKET_CONNECT_TIMEOUT": 5},
    }
}
