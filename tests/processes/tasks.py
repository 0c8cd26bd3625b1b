"""A task queue that uses the limiter. Celery has its broker in a folder, so that no other server is needed."""

import os

import django
from celery import Celery

django.setup()

from django_redis import get_redis_connection  # noqa: E402

from tests.processes.urls import early, shared  # noqa: E402
from tests.servers import wait_until  # noqa: E402

folder = os.environ["RATELIMIT_TEST_BROKER"]
app = Celery("tasks", broker="filesystem://")
app.conf.broker_transport_options = {"data_folder_in": folder, "data_folder_out": folder, "control_folder": folder}
app.conf.task_ignore_result = True
app.conf.broker_connection_retry_on_startup = True

# Check during the import, as a project may, which is in the parent of the worker's processes.
early.check({})


@app.task
def ask():
    result = shared.check({})
    client = get_redis_connection("default")
    client.hincrby("by", str(os.getpid()), 1)
    # Wait for all processes, because the first one could run all tasks before the last one starts.
    wait_until(
        lambda: client.hlen("by") == int(os.environ["RATELIMIT_TEST_PROCESSES"]), what="all processes to take part"
    )
    client.hincrby("failed", "error", int(result.error))
    client.hincrby("asked", str(result.action), 1)
