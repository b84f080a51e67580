#!/usr/bin/env python3
"""The real program over a lease table in PostgreSQL, while servers, standbys, clocks, disks and clients fail under it.

    KAZAHANA=build/kazahana tests/faults/test_postgres.py [CLASS]

The oracle: every ID is written down; no two of all processes are equal; each process's own increase.
"""

import os
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import parallel  # noqa: E402
from services import LOOPBACK, ROOT, Pgbouncer, Postgres  # noqa: E402
from test_leases import FAKETIME, FALLBACK_BIT, PATIENCE, PROGRAM, Fleet, permitted  # noqa: E402

MINUTES = ("-n", "10000000", "--rate", "200/s", "--timeout", PATIENCE)
# The same program with rules that a variable switches off, and their bits by name.
HOOKED = os.environ.get("KAZAHANA_HOOKED", "")
with open(os.path.join(ROOT, "core", "rules.h"), encoding="utf-8") as header:
    RULES = {name: 1 << bit for bit, name in enumerate(re.findall(r"^    KZ__RULE_(\w+),", header.read(), re.MULTILINE))}


@unittest.skipIf(Postgres.missing(), "postgresql is not installed")
class Table(Fleet):
    """One server, unless a test makes more."""

    settings = ()

    def setUp(self):
        super().setUp()
        self.server = self.up(Postgres(self.folder, *self.settings))

    def up(self, service):
        self.addCleanup(service.kill)
        return service.start()

    def rows(self, server=None):
        return (server or self.server).sql("SELECT lo, start_ms, secret FROM kazahana.out "
                                           "WHERE end_ms > extract(epoch FROM clock_timestamp()) * 1000").split("\n")

    def generation(self, server=None):
        return int((server or self.server).sql("SELECT generation FROM kazahana.meta"))

    def refused(self, url, *words, timeout="3s"):
        """One process that gets nothing, in time, and says why in these words."""
        began = time.monotonic()
        process = self.start(url, "-n", "1", "--timeout", timeout)
        self.assertEqual(process.wait(), 1, process.err())
        for word in words:
            self.assertIn(word, process.err())
        self.assertEqual(process.ids(), [])
        return time.monotonic() - began

    def tiles(self, server=None):
        """Free and held slots cover each service's space, exactly once."""
        gaps = (server or self.server).sql(
            "SELECT service, lo, hi, lag(hi, 1, 0::int8) OVER (PARTITION BY service ORDER BY lo) FROM (SELECT service, "
            "lo, hi FROM kazahana.free UNION ALL SELECT service, lo, hi FROM kazahana.out) all_of_it")
        for line in gaps.split("\n"):
            self.assertEqual(line.split("|")[1], line.split("|")[3], gaps)


class Users(Table):
    """Whatever one server does."""

    def test_20_processes_at_once_mint_no_duplicate_and_leave_no_lease(self):
        fleet = [self.start(self.server.url, "-n", "20000", "--timeout", PATIENCE) for _ in range(20)]
        for process in fleet:
            self.assertEqual(process.wait(), 0, process.err())
        self.assertEqual(self.assert_no_twins(fleet), 400000)
        self.assertEqual(self.leases(self.server.url), [])
        self.tiles()

    def test_killed_clients_and_short_leases_repeat_nothing(self):
        fleet = [self.start(self.server.url + "?lease=1s", *MINUTES) for _ in range(6)]
        self.wait_for_ids(fleet)
        for _ in range(6):
            fleet[-1].end(signal.SIGKILL)
            fleet.append(self.start(self.server.url + "?lease=1s", *MINUTES))
            self.wait_for_ids(fleet[-1:])
        self.end_all(fleet)
        self.assert_no_twins(fleet)
        self.tiles()

    def test_a_server_that_crashes_in_commits_keeps_what_it_answered(self):
        fleet = [self.start(self.server.url + "?lease=2s", *MINUTES) for _ in range(6)]
        self.wait_for_ids(fleet)
        for _ in range(3):
            before = self.generation()
            self.wait_for("a handover", lambda: self.generation() > before + 1)
            self.server.crash()
            self.server.start()
            self.wait_for_ids(fleet)
        self.wait_for("leases again", lambda: all(not p.last() & FALLBACK_BIT for p in fleet))
        self.end_all(fleet)
        self.assert_no_twins(fleet)
        self.tiles()

    def test_a_client_that_stops_with_the_lock_stops_others_for_two_seconds_only(self):
        first = self.start(self.server.url, "-n", "1")
        self.assertEqual(first.wait(), 0, first.err())
        locker = subprocess.Popen(["psql", "-X", "-q", "-A", "-t", self.server.url], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(locker.stdout.close)
        locker.stdin.write("BEGIN; SELECT 'locked' FROM kazahana.meta FOR UPDATE;\n")
        locker.stdin.flush()
        self.assertEqual(locker.stdout.readline(), "locked\n")
        stopped = self.start(self.server.url, *MINUTES)
        self.wait_for("a client that waits for the lock", lambda: "Lock" in self.server.sql(
            "SELECT wait_event_type FROM pg_stat_activity WHERE application_name = 'kazahana'"))
        stopped.send(signal.SIGSTOP)
        locker.communicate("ROLLBACK;\n")
        # Now it has the lock, and does not know.
        self.wait_for("a lock that nobody uses", lambda: "idle in transaction" in self.server.sql(
            "SELECT state FROM pg_stat_activity WHERE application_name = 'kazahana'"))
        other = self.start(self.server.url, "-n", "100", "--timeout", PATIENCE)
        self.assertEqual(other.wait(), 0, other.err())
        stopped.send(signal.SIGCONT)
        self.wait_for_ids([stopped])
        self.end_all([stopped])
        self.assert_no_twins([first, other, stopped])
        self.tiles()

    def test_behind_a_pooler_in_transaction_mode(self):
        if Pgbouncer.missing():
            self.skipTest(Pgbouncer.missing())
        pooler = self.up(Pgbouncer(self.folder, self.server))
        fleet = [self.start(pooler.url + "?lease=1s", *MINUTES) for _ in range(6)]
        self.wait_for_ids(fleet)
        before = self.generation()
        self.wait_for("handovers", lambda: self.generation() > before + 30)
        self.end_all(fleet)
        self.assert_no_twins(fleet)
        self.assertEqual(self.leases(pooler.url), [])
        self.tiles()

    def test_a_connection_that_is_not_used_is_closed(self):
        process = self.start(self.server.url, *MINUTES)
        self.wait_for_ids([process])
        connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kazahana'"
        self.wait_for("no connection", lambda: self.server.sql(connections) == "0")
        self.wait_for_ids([process])
        process.end()
        self.assertEqual(self.leases(self.server.url), [])


class Serializable(Table):
    settings = ("default_transaction_isolation=serializable", "synchronous_commit=off")

    def test_the_defaults_of_a_database_do_not_matter(self):
        fleet = [self.start(self.server.url + "?lease=1s", *MINUTES) for _ in range(6)]
        self.wait_for_ids(fleet)
        before = self.generation()
        self.wait_for("handovers", lambda: self.generation() > before + 20)
        self.end_all(fleet)
        self.assert_no_twins(fleet)
        for process in fleet:
            self.assertEqual(process.err(), "")


class Failovers(Table):
    """A primary, and a standby that takes over."""

    def standby(self, synchronous):
        standby = self.up(Postgres(self.folder, primary=self.server))
        self.wait_for("a standby in step", lambda: "streaming" in self.server.sql(
            "SELECT state FROM pg_stat_replication"))
        if synchronous:
            self.server.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.server.sql("SELECT pg_reload_conf()")
            self.wait_for("a synchronous one", lambda: self.server.sql(
                "SELECT sync_state FROM pg_stat_replication") == "sync")
        self.both = f"postgresql://postgres@{LOOPBACK}:{self.server.port},{LOOPBACK}:{standby.port}/postgres"
        return standby

    def test_a_primary_killed_in_commits_and_its_synchronous_standby(self):
        standby = self.standby(True)
        fleet = [self.start(self.both + "?lease=2s", *MINUTES) for _ in range(6)]
        self.wait_for_ids(fleet)
        before = self.generation()
        self.wait_for("handovers", lambda: self.generation() > before + 5)
        # What others can see was acknowledged by the standby.
        seen, generation = self.rows(), self.generation()
        self.server.crash()
        standby.promote()
        self.assertGreaterEqual(self.generation(standby), generation)
        kept = set(self.rows(standby))
        now_ms = float(standby.sql("SELECT extract(epoch FROM clock_timestamp()) * 1000"))
        for row in seen:
            if int(row.split("|")[1]) + 2000 > now_ms:
                self.assertIn(row, kept)
        self.wait_for("leases again", lambda: all(not p.last() & FALLBACK_BIT for p in fleet) and
                      self.generation(standby) > generation + len(fleet))
        self.end_all(fleet)
        self.assert_no_twins(fleet)
        self.tiles(standby)

    def lose_grants(self, **more):
        """A standby that takes over without having heard of the last grants, whose holders go on; then newcomers."""
        standby = self.standby(False)
        known = [self.start(self.both + "?lease=10min", *MINUTES, **more) for _ in range(2)]
        self.wait_for_ids(known)
        self.wait_for("a standby in step", lambda: self.generation(standby) == self.generation())
        standby.sql("ALTER SYSTEM SET primary_conninfo = 'host=127.0.0.1 port=1'")
        standby.sql("SELECT pg_reload_conf()")
        self.wait_for("nobody who listens", lambda: self.server.sql("SELECT count(*) FROM pg_stat_replication") == "0")
        forgotten = [self.start(self.both, *MINUTES, **more) for _ in range(5)]
        self.wait_for_ids(forgotten)
        generation = self.generation()
        self.server.crash()
        standby.promote()
        self.assertLess(self.generation(standby), generation)
        newcomers = [self.start(self.both, *MINUTES, **more) for _ in range(6)]
        self.wait_for_ids(newcomers)
        # Served at once, not only in the fallback half.
        self.assertTrue(all(not p.last() & FALLBACK_BIT for p in newcomers))
        self.wait_for_ids(known + forgotten + newcomers, 600)
        self.end_all(known + forgotten + newcomers)
        return standby, known + forgotten + newcomers

    def test_an_asynchronous_standby_that_forgot_grants_repeats_nothing(self):
        standby, fleet = self.lose_grants()
        self.assert_no_twins(fleet)
        self.tiles(standby)
        self.assertTrue(any("set aside" in p.err() for p in fleet), "".join(p.err() for p in fleet))

    @unittest.skipIf(not HOOKED, "the program with hooks is not built")
    def test_without_the_place_rule_it_does(self):
        _, fleet = self.lose_grants(program=HOOKED, environment={"KZ_RULES_OFF": str(RULES["PLACE"])})
        ids = [id for process in fleet for id in process.ids()]
        self.assertLess(len(set(ids)), len(ids), "no duplicate among %d IDs" % len(ids))

    def stop_standby_in_a_commit(self, standby):
        """A client whose commit waits for a standby that does not answer; the process of the server that waits."""
        holder = self.start(self.both, *MINUTES)
        self.wait_for_ids([holder])
        standby.signal_all(signal.SIGSTOP)
        newcomer = self.start(self.both, *MINUTES)
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        self.wait_for("a commit that waits", lambda: self.server.sql(waiting))
        return holder, newcomer, self.server.sql(waiting).split("\n")[0]

    def end_wait(self, how):
        standby = self.standby(True)
        holder, newcomer, pid = self.stop_standby_in_a_commit(standby)
        if how:
            self.server.sql(f"SELECT {how}({pid})")
        else:
            # Its own deadline: a connection that waits in vain is given up, not cancelled.
            self.refused(self.both, "no answer", timeout="2s")
        self.wait_for_ids([holder])
        self.assertEqual(newcomer.ids(), [])
        standby.signal_all(signal.SIGCONT)
        self.wait_for_ids([newcomer])
        # The request was asked again, and got what it had: one lease for each that is alive.
        self.assertLessEqual(len(self.leases(self.both)), 3)
        self.end_all([holder, newcomer])
        self.assert_no_twins([holder, newcomer])
        self.tiles()

    def test_a_standby_that_stops_and_a_cancel_in_the_wait(self):
        self.end_wait("pg_cancel_backend")

    def test_a_standby_that_stops_and_a_session_that_is_ended_in_the_wait(self):
        self.end_wait("pg_terminate_backend")

    def test_a_standby_that_stops_and_the_clients_own_deadline(self):
        self.end_wait(None)

    def test_a_standby_that_is_first_in_the_url_is_passed_over(self):
        standby = self.standby(False)
        url = f"postgresql://postgres@{LOOPBACK}:{standby.port},{LOOPBACK}:{self.server.port}/postgres"
        process = self.start(url, "-n", "100")
        self.assertEqual(process.wait(), 0, process.err())
        self.refused(standby.url, "read-only")


@unittest.skipIf(not FAKETIME, "libfaketime is not installed")
class Clocks(Table):
    """A server that comes back with another clock, as a standby on another machine may have."""

    def restart(self, offset):
        self.server.kill()
        self.server.environment = {"LD_PRELOAD": FAKETIME[0], "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self.server.start()

    def test_an_hour_behind_grants_nothing_and_holders_go_on(self):
        holder = self.start(self.server.url, *MINUTES)
        self.wait_for_ids([holder])
        self.restart("-3600s")
        self.refused(self.server.url, "behind what it has answered before")
        self.wait_for_ids([holder])
        self.restart("+0s")
        newcomer = self.start(self.server.url, "-n", "100", "--timeout", PATIENCE)
        self.assertEqual(newcomer.wait(), 0, newcomer.err())
        self.end_all([holder])
        self.assert_no_twins([holder, newcomer])

    def test_days_ahead_is_not_believed_and_an_hour_is(self):
        holder = self.start(self.server.url + "?lease=2h", *MINUTES)
        self.wait_for_ids([holder])
        self.restart("+172800s")
        self.refused(self.server.url, "more than a day ahead")
        self.restart("+3600s")
        newcomer = self.start(self.server.url, "-n", "100", "--timeout", PATIENCE)
        self.assertEqual(newcomer.wait(), 0, newcomer.err())
        self.wait_for_ids([holder])
        self.end_all([holder])
        self.assert_no_twins([holder, newcomer])


class Refusals(Table):
    """What is wrong from the start is told with the way out, nothing is granted, and nobody waits for ever."""

    def test_a_server_that_is_down(self):
        self.server.kill()
        took = self.refused(self.server.url, "no connection to", "refused")
        self.assertLess(took, 60)
        # And one that comes up while it is waited for.
        process = self.start(self.server.url, "-n", "10", "--timeout", PATIENCE)
        self.wait_for("a try", lambda: "nothing is held yet" in process.err())
        self.server.start()
        self.assertEqual(process.wait(), 0, process.err())

    def test_a_host_that_is_silent_does_not_use_up_the_time_of_the_next(self):
        # Nobody answers there, and nobody refuses.
        self.server.signal_all(signal.SIGSTOP)
        self.refused(self.server.url, "does not answer")
        other = self.up(Postgres(self.folder))
        process = self.start(f"postgresql://postgres@{LOOPBACK}:{self.server.port},{LOOPBACK}:{other.port}/postgres",
                             "-n", "10", "--timeout", PATIENCE)
        self.assertEqual(process.wait(), 0, process.err())

    def test_a_wrong_password_is_told_and_not_shown(self):
        self.server.sql("CREATE ROLE app LOGIN PASSWORD 'right-one'; CREATE SCHEMA kazahana AUTHORIZATION app")
        with open(os.path.join(self.server.data, "pg_hba.conf"), "w", encoding="ascii") as rules:
            rules.write("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        self.server.sql("SELECT pg_reload_conf()")
        url = f"postgresql://app:%s{LOOPBACK}:{self.server.port}/postgres"
        process = self.start(url % "wr0ng-one@", "-n", "1")
        self.assertEqual(process.wait(), 1)
        self.assertIn("password authentication failed", process.err())
        self.assertIn("right user and password", process.err())
        self.assertNotIn("wr0ng", process.err())
        self.refused(url.replace(":%s", "@"), "wants a password")
        process = self.start(url % "right-one@", "-n", "10")
        self.assertEqual(process.wait(), 0, process.err())

    def test_missing_rights_name_the_file_that_gives_them(self):
        self.server.sql("CREATE ROLE app LOGIN")
        url = f"postgresql://app@{LOOPBACK}:{self.server.port}/postgres"
        self.refused(url, "permission denied", "share/kazahana/postgres.sql")
        doctor = subprocess.run([PROGRAM, "doctor", "--from", url], capture_output=True, text=True)
        self.assertEqual(doctor.returncode, 1)
        self.assertIn("psql -v schema=kazahana -v role=app -f share/kazahana/postgres.sql", doctor.stdout)
        self.assertEqual(self.server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'kazahana'"), "0")
        # The administrator runs it, and that is enough.
        script = os.path.join(os.path.dirname(PROGRAM), "sources", "postgres.sql")
        subprocess.run([os.path.join(Postgres.bin(), "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-v",
                        "schema=kazahana", "-v", "role=app", "-f", script, self.server.url], check=True)
        process = self.start(url, "-n", "10")
        self.assertEqual(process.wait(), 0, process.err())
        # The tables that the script makes are those that are made without it.
        made = "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns WHERE " \
               "table_schema = '%s' ORDER BY 1, 2"
        self.assertEqual(self.start(self.server.url + "?schema=other", "-n", "1").wait(), 0)
        self.assertEqual(self.server.sql(made % "other"), self.server.sql(made % "kazahana"))
        self.server.sql("REVOKE UPDATE ON kazahana.meta FROM app")
        self.refused(url, "permission denied", "share/kazahana/postgres.sql")

    def test_create_no_makes_nothing(self):
        self.refused(self.server.url + "?create=no", "create=no", "share/kazahana/postgres.sql")
        self.assertEqual(self.leases(self.server.url), [])
        self.assertEqual(self.server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'kazahana'"), "0")

    def test_another_database_a_newer_table_and_nonsense_in_the_url(self):
        self.refused(self.server.url.rpartition("/")[0] + "/nowhere", 'database "nowhere" does not exist')
        self.assertEqual(self.start(self.server.url, "-n", "1").wait(), 0)
        self.server.sql("UPDATE kazahana.meta SET version = 2")
        self.refused(self.server.url, "newer kazahana")
        for url, word in ((self.server.url + "?nonsense=1", "nonsense"), ("postgres:nothing", "postgres://user@host"),
                          (self.server.url + "?target_session_attrs=any", "target_session_attrs"),
                          ("postgres://u:s3cret@[h/db", "special characters")):
            process = self.start(url, "-n", "1")
            self.assertIn(process.wait(), (1, 2))
            self.assertIn(word, process.err())
            self.assertNotIn("s3cret", process.err())


@unittest.skipIf(not permitted("unshare", "-m", "true"), "file systems cannot be mounted here")
class Disks(Fleet):
    def test_a_full_disk_is_told_and_grants_nothing_twice(self):
        if Postgres.missing():
            self.skipTest(Postgres.missing())
        place = os.path.join(self.folder, "small")
        os.mkdir(place)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "none", place], check=True)
        self.mounted.append(place)
        server = Postgres(self.folder, "wal_recycle=off", "max_wal_size=32MB", "shared_buffers=1MB",
                          data=os.path.join(place, "data"))
        self.addCleanup(server.kill)
        server.start()
        url = server.url + "?lease=10min"
        layout = "41-14-8@2026-01-01"
        holder = self.start(url, *MINUTES, layout=layout)
        self.wait_for_ids([holder])
        filler = os.path.join(place, "filler")
        with open(filler, "wb") as file:
            try:
                while True:
                    file.write(b"\0" * 65536)
                    file.flush()
            except OSError:
                pass
        # Leases that are never given back fill the pages there are.
        many = []
        while not any("No space left" in p.err() or "connection was lost" in p.err() or "no connection" in p.err()
                      for p in many):
            many.append(self.start(url, "-n", "1", "--throughput", "16384:16384", "--timeout", "2s", layout=layout))
            many[-1].wait()
            self.assertLess(len(many), 400, "the disk does not get full")
        self.wait_for_ids([holder])
        os.remove(filler)
        if server.process.poll() is not None:
            server.process = None
            server.start()
        late = self.start(url, "-n", "100", "--timeout", PATIENCE, layout=layout)
        self.assertEqual(late.wait(), 0, late.err())
        self.end_all([holder])
        self.assert_no_twins([holder, late, *many])


if __name__ == "__main__":
    parallel.main()
