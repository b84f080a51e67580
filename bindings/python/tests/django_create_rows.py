"""Creates events through Django, as a worker of a server would: most in bulk, some one by one.

    python django_create_rows.py COUNT             in this process
    python django_create_rows.py COUNT CHILDREN    so many in each of these children, forked after the parent made IDs
"""

import os
import sys

import django

BATCH = 1000
SINGLES = 100


def create(count):
    from games.models import Event

    for number in range(SINGLES):
        Event.objects.create(name=f"single {number}")
    left = count - SINGLES
    while left:
        batch = min(left, BATCH)
        Event.objects.bulk_create([Event(name="bulk") for _ in range(batch)])
        left -= batch


def main():
    count, children = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    django.setup()
    if not children:
        create(count)
        return 0

    from django.db import connections
    from games.models import Event

    Event.objects.create(name="the parent's")
    connections.close_all()  # a connection is one process's; the generator looks after itself
    pids = []
    for _ in range(children):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                create(count)
                connections.close_all()
                status = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(status)
        pids.append(pid)
    Event.objects.create(name="the parent's")
    return sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)


sys.exit(main())
