#!/usr/bin/env python3
"""examples/posts over a real PostgreSQL: what it takes, what it refuses, and how it starts and ends.

    POSTS=build/examples/posts/posts tests/posts/test_api.py
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from keep_alive import Connection  # noqa: E402
from services import LOOPBACK, Postgres, Posts, free_port  # noqa: E402

MISSING = Postgres.missing() or Posts.missing()
PATIENCE_S = 60
folder = postgres = None


def setUpModule():
    global folder, postgres
    if MISSING:
        raise unittest.SkipTest(MISSING)
    folder = tempfile.mkdtemp(prefix="kz-posts-")
    postgres = Postgres(folder).start()


def tearDownModule():
    postgres.kill()
    shutil.rmtree(folder)


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.02)


def post(**changes):
    """A post as it should be, but for the changes; None leaves a field out."""
    fields = {"communityId": "1", "userId": "2", "content": "hello", **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None})


class WithPosts(unittest.TestCase):
    """An instance on a fixed node, for all tests of a class."""

    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.posts = Posts(folder, cls.__name__, postgres.url, "static:7", flags=cls.flags).start()

    @classmethod
    def tearDownClass(cls):
        cls.posts.kill()

    def setUp(self):
        self.connection = Connection(LOOPBACK, self.posts.port)
        self.addCleanup(self.connection.close)

    def ask(self, method, path, body=None, headers=""):
        status, headers, text = self.connection.ask(method, path, body, headers)
        return status, headers, json.loads(text) if text else None

    def create(self, **changes):
        status, headers, answer = self.ask("POST", "/posts", post(**changes))
        self.assertEqual(status, 201, answer)
        return headers, answer

    def assert_problem(self, answered, status, *words):
        self.assertEqual(answered[0], status, answered)
        self.assertEqual(answered[1]["content-type"], "application/problem+json")
        self.assertEqual(answered[2]["status"], status)
        for word in words:
            self.assertIn(word, answered[2]["detail"])


class Writing(WithPosts):
    def test_a_post_is_stored_with_a_number_and_answered_with_texts(self):
        headers, answer = self.create(communityId="115608583441221376", userId="18446744073709551615")
        self.assertEqual(answer["communityId"], "115608583441221376")
        self.assertEqual(answer["userId"], "18446744073709551615")
        self.assertEqual(headers["location"], "/posts/" + answer["externalId"])
        self.assertEqual(headers["x-instance"], "Writing")
        self.assertEqual(headers["x-node"], "7")
        row = postgres.sql(f"SELECT community_id, user_id, content FROM posts WHERE id = {answer['id']}")
        self.assertEqual(row, "115608583441221376|-1|hello")

    def test_the_table_is_the_one_of_the_design(self):
        columns = postgres.sql("SELECT string_agg(column_name || ' ' || data_type, ', ' ORDER BY ordinal_position) "
                               "FROM information_schema.columns WHERE table_name = 'posts'")
        self.assertEqual(columns, "id bigint, community_id bigint, user_id bigint, content text, "
                                  "created_at timestamp without time zone")
        self.assertIn("(id)", postgres.sql("SELECT pg_get_indexdef('posts_pkey'::regclass)"))

    def test_the_time_of_a_post_is_that_of_its_id(self):
        answer = self.create()[1]
        epoch_ms = 1767225600000  # of the layout that a static node has
        stored = postgres.sql("SELECT (extract(epoch FROM created_at) * 1000)::bigint FROM posts "
                              f"WHERE id = {answer['id']}")
        self.assertEqual(int(stored), (int(answer["id"]) >> 22) + epoch_ms)

    def test_any_text_comes_back_as_it_was(self):
        for content in ("風花 héllo \U0001f338", "'; DROP TABLE posts; --", "\\ \" \n\t\u200b", "a" * 10000, "花" * 10000):
            answer = self.create(content=content)[1]
            self.assertEqual(answer["content"], content)
            self.assertEqual(self.ask("GET", "/posts/" + answer["externalId"])[2], answer)

    def test_what_is_not_json_is_refused(self):
        for body in ("", "{", "[1", "hello", "{'a': 1}", post() + "x", '{"content": "\\ud800"}',
                     '{"content": "\\u0000"}', '{"content": "a", "content": "b"}', "[" * 60000):
            self.assert_problem(self.ask("POST", "/posts", body), 400, "not JSON")
        self.assert_problem(self.ask("POST", "/posts", "[]"), 400, "JSON object")

    def test_bytes_that_are_not_utf8_are_refused(self):
        body = b'{"communityId":"1","userId":"2","content":"\xff\xfe"}'
        self.connection.send(b"POST /posts HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.assertEqual(self.connection.answer()[0], 400)

    def test_missing_fields_are_named(self):
        for name in ("communityId", "userId", "content"):
            self.assert_problem(self.ask("POST", "/posts", post(**{name: None})), 400, name, "missing")

    def test_wrong_types_and_values_are_named(self):
        for name in ("communityId", "userId"):
            for value in (1, 1.5, True, [], {}, "", "x", "-1", " 1", "1 ", "0x1", "18446744073709551616",
                          "é", "1" * 5000, "é" * 400):
                self.assert_problem(self.ask("POST", "/posts", post(**{name: value})), 400, name)
        for value in (1, True, [], {}, "", "a" * 10001):
            self.assert_problem(self.ask("POST", "/posts", post(content=value)), 400, "content")

    def test_a_null_is_not_an_id(self):
        self.assert_problem(self.ask("POST", "/posts", '{"communityId":null,"userId":"1","content":"a"}'), 400,
                            "communityId")

    def test_a_huge_body_is_refused_before_it_is_read(self):
        self.connection.send(b"POST /posts HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n")
        status, headers, text = self.connection.answer()
        self.assert_problem((status, headers, json.loads(text)), 413, "1000000000", "65536")

    def test_a_body_of_unknown_length_is_refused(self):
        self.connection.send(b"POST /posts HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        status, headers, text = self.connection.answer()
        self.assert_problem((status, headers, json.loads(text)), 411, "Content-Length")

    def test_a_refused_post_leaves_the_connection_and_the_table_as_they_were(self):
        before = postgres.sql("SELECT count(*) FROM posts")
        self.assertEqual(self.ask("POST", "/posts", "{")[0], 400)
        self.assertEqual(self.ask("GET", "/health/live")[0], 200)
        self.assertEqual(postgres.sql("SELECT count(*) FROM posts"), before)

    def test_an_id_that_exists_is_an_error_that_is_counted_and_never_overwrites(self):
        # Two instances on one static node, which nobody should have, meet in the same millisecond sooner or later.
        with Posts(folder, "Twin", postgres.url, "static:7") as twin, Connection(LOOPBACK, twin.port) as other:
            def collided():
                with ThreadPoolExecutor(2) as pool:
                    list(pool.map(lambda link: [link.ask("POST", "/posts", post()) for _ in range(50)],
                                  (self.connection, other)))
                return sum(one.health()[1]["duplicateKeys"] for one in (twin, self.posts))

            wait_until(collided, "two posts with one ID")
            events = twin.events("duplicate_key") + self.posts.events("duplicate_key")
            self.assertEqual(len(events), sum(one.health()[1]["duplicateKeys"] for one in (twin, self.posts)))
            self.assertEqual(events[0]["node"], 7)

    @unittest.skipUnless(shutil.which("node"), "node is not installed: no JavaScript to parse the answer with")
    def test_ids_survive_javascript(self):
        answer = self.connection.ask("POST", "/posts", post(userId="9007199254740993"))[2]
        script = """
            const text = require('fs').readFileSync(0, 'utf8'), post = JSON.parse(text);
            console.log([post.id, post.userId, JSON.stringify(post) === text, String(Number(post.userId))].join(' '));
        """
        id_there, user_there, same, as_number = subprocess.run(
            ["node", "-e", script], input=answer, text=True, capture_output=True, check=True, timeout=PATIENCE_S
        ).stdout.split()
        self.assertEqual(id_there, json.loads(answer)["id"])
        self.assertEqual(postgres.sql(f"SELECT user_id FROM posts WHERE id = {id_there}"), "9007199254740993")
        self.assertEqual((user_there, same), ("9007199254740993", "true"))
        self.assertEqual(as_number, "9007199254740992", "a JSON number would have lost the last digit")


class Reading(WithPosts):
    def test_an_unknown_post_is_not_found(self):
        answer = self.create()[1]
        postgres.sql(f"DELETE FROM posts WHERE id = {answer['id']}")
        self.assert_problem(self.ask("GET", "/posts/" + answer["externalId"]), 404)

    def test_an_id_that_is_none_is_refused(self):
        answer = self.create()[1]
        for text in ("", "x", answer["id"], answer["externalId"][:-1], answer["externalId"] + "a", "!" * 11, "%00",
                     "a/b", "%ff" * 11, "%C3%A9%C3%A9", "%e9aaaaaaaaaa"):
            self.assert_problem(self.ask("GET", "/posts/" + text), 400)

    def test_paging_gives_every_post_once_in_the_order_of_time(self):
        created = [self.create(content=str(number))[1]["id"] for number in range(25)]
        seen, path = [], "/posts?limit=7"
        while path:
            status, _, page = self.ask("GET", path)
            self.assertEqual(status, 200)
            self.assertLessEqual(len(page["posts"]), 7)
            seen += [one["id"] for one in page["posts"]]
            path = page["next"] and f"/posts?limit=7&after={page['next']}"
        self.assertEqual(seen, postgres.sql("SELECT id FROM posts ORDER BY created_at, id").split())
        self.assertEqual(seen[-25:], created)

    def test_a_page_has_twenty_posts_unless_told(self):
        for _ in range(21):
            self.create()
        self.assertEqual(len(self.ask("GET", "/posts")[2]["posts"]), 20)

    def test_a_wrong_page_is_refused(self):
        for limit in ("0", "101", "-1", "x", "", "1e1", "99999999999999999999", "%31x"):
            self.assert_problem(self.ask("GET", "/posts?limit=" + limit), 400, "limit", "100")
        self.assert_problem(self.ask("GET", "/posts?after=1"), 400)
        self.assert_problem(self.ask("GET", "/posts?after="), 400)
        self.assert_problem(self.ask("GET", "/posts?after=" + "%ff" * 11), 400)

    def test_other_paths_and_methods_are_refused(self):
        self.assert_problem(self.ask("GET", "/"), 404, "/posts")
        self.assert_problem(self.ask("GET", "/postsx"), 404)
        for method, path, allowed in (("PUT", "/posts", "GET, HEAD, POST"), ("POST", "/health", "GET, HEAD"),
                                      ("DELETE", "/posts/AAAAAAAAAAA", "GET, HEAD")):
            answered = self.ask(method, path, "")
            self.assert_problem(answered, 405)
            self.assertEqual(answered[1]["allow"], allowed)

    def test_head_is_get_without_a_body(self):
        status, headers, _ = self.ask("HEAD", "/health")
        self.assertEqual(status, 200)
        self.assertGreater(int(headers["content-length"]), 0)


class KeyFile(WithPosts):
    """External IDs by a cipher."""

    @classmethod
    def setUpClass(cls):
        path = os.path.join(folder, "keys")
        with open(path, "w", encoding="ascii") as file:
            file.write("2 xtea 000102030405060708090a0b0c0d0e0f\n")
        cls.flags = ("--key-file", path)
        super().setUpClass()

    def test_links_read_with_the_key_and_not_without(self):
        answer = self.create()[1]
        self.assertEqual(self.ask("GET", "/posts/" + answer["externalId"])[2], answer)
        with Posts(folder, "Keyless", postgres.url, "static:8") as other, Connection(LOOPBACK, other.port) as link:
            status, _, text = link.ask("GET", "/posts/" + answer["externalId"])
            self.assertEqual((status, "key" in text), (400, True))


class Starting(unittest.TestCase):
    def run_posts(self, *flags, **environment):
        required = ("DATABASE_URL", "KAZAHANA_SOURCE")
        variables = {name: value for name, value in os.environ.items() if name not in required}
        return subprocess.run([Posts.program, *flags], env={**variables, **environment}, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)

    def assert_refused(self, result, status, *words):
        self.assertEqual(result.returncode, status, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_what_is_missing_or_wrong_is_named(self):
        rest = ("--database", postgres.url, "--source", "static:1")
        self.assert_refused(self.run_posts(), 2, "--database", "DATABASE_URL")
        self.assert_refused(self.run_posts("--database", "x"), 2, "--source", "KAZAHANA_SOURCE", "tsid+redis://")
        self.assert_refused(self.run_posts(*rest, "--threads", "0"), 2, "--threads", "THREADS", "'0'", "1 to 64")
        self.assert_refused(self.run_posts(*rest, THREADS="many"), 2, "'many'")
        self.assert_refused(self.run_posts(*rest, "--instance", "a b"), 2, "'a b'")
        self.assert_refused(self.run_posts(*rest, "--colour", "red"), 2, "--help")
        self.assert_refused(self.run_posts(*rest, "red"), 2, "'red'")
        self.assert_refused(self.run_posts(*rest, "--listen", "8080"), 1, "'8080'", "127.0.0.1:8080")
        self.assert_refused(self.run_posts(*rest, "--listen", "127.0.0.1:99999"), 1, "99999")
        self.assert_refused(self.run_posts(*rest, "--key-file", "/nowhere/keys"), 1, "/nowhere/keys")
        self.assert_refused(self.run_posts("--database", postgres.url, "--source", "nonsense:1"), 1, "nonsense")

    def test_help_names_every_setting(self):
        result = self.run_posts("--help")
        self.assertEqual(result.returncode, 0)
        for word in ("--listen", "DATABASE_URL", "KAZAHANA_SOURCE", "KAZAHANA_KEY_FILE"):
            self.assertIn(word, result.stdout)

    def test_flags_win_over_the_environment(self):
        result = self.run_posts("--threads", "0", THREADS="4", DATABASE_URL="a", KAZAHANA_SOURCE="b")
        self.assert_refused(result, 2, "'0'")

    def test_a_port_that_is_taken_is_named(self):
        with Posts(folder, "First", postgres.url, "static:1") as first:
            result = self.run_posts("--database", postgres.url, "--source", "static:2", "--listen",
                                    f"{LOOPBACK}:{first.port}")
            self.assert_refused(result, 1, str(first.port))

    def test_a_database_that_is_not_there_is_waited_for_and_then_named(self):
        port = free_port()
        url = f"postgresql://postgres@{LOOPBACK}:{port}/postgres"
        result = self.run_posts("--database", url, "--source", "static:1", "--database-wait", "1")
        self.assert_refused(result, 1, "database_not_ready", str(port))

    def test_a_table_of_another_shape_is_refused_at_the_start(self):
        postgres.sql("CREATE DATABASE other")
        url = postgres.url[:-len("postgres")] + "other"
        psql = os.path.join(Postgres.bin(), "psql")
        subprocess.run([psql, "-q", url, "-c", "CREATE TABLE posts (id TEXT)"], check=True)
        self.assert_refused(self.run_posts("--database", url, "--source", "static:1", "--database-wait", "0"), 1,
                            "community_id")

    def test_eight_that_start_at_once_make_one_table(self):
        for turn in range(3):
            postgres.sql("DROP TABLE IF EXISTS posts")
            instances = [Posts(folder, f"race-{turn}-{number}", postgres.url, f"static:{number}")
                         for number in range(8)]
            try:
                with ThreadPoolExecutor(8) as pool:
                    list(pool.map(Posts.start, instances))
                self.assertEqual([one.health()[0] for one in instances], [200] * 8)
            finally:
                for one in instances:
                    one.kill()


class Ending(unittest.TestCase):
    def test_a_request_under_way_is_finished(self):
        # An insert that waits for a lock is under way for as long as the test wants.
        url = postgres.url + "?options=-c%20statement_timeout%3D60000"
        with Posts(folder, "Finishing", url, "static:1") as posts, Connection(LOOPBACK, posts.port) as link:
            holder = subprocess.Popen([os.path.join(Postgres.bin(), "psql"), "-X", "-q", postgres.url], text=True,
                                      stdin=subprocess.PIPE)
            try:
                holder.stdin.write("BEGIN; LOCK TABLE posts IN EXCLUSIVE MODE;\n")
                holder.stdin.flush()
                locked = "SELECT count(*) FROM pg_locks WHERE relation = 'posts'::regclass AND mode = '{}' " \
                         "AND {} granted"
                wait_until(lambda: postgres.sql(locked.format("ExclusiveLock", "")) == "1", "the lock")
                answers = []
                client = threading.Thread(target=lambda: answers.append(link.ask("POST", "/posts", post())))
                client.start()
                wait_until(lambda: postgres.sql(locked.format("RowExclusiveLock", "NOT")) == "1", "the waiting insert")
                posts.process.terminate()
                wait_until(lambda: posts.events("ending"), "the end to begin")
            finally:
                holder.communicate("COMMIT;\n")
            client.join(PATIENCE_S)
            self.assertEqual(answers[0][0], 201)
            self.assertEqual(answers[0][1]["connection"].lower(), "close")
            self.assertEqual(posts.process.wait(PATIENCE_S), 0)
            self.assertEqual(posts.events("ended")[0]["posts"], 1)

    def test_an_open_connection_that_is_idle_does_not_hold_it_up(self):
        with Posts(folder, "Idle", postgres.url, "static:1") as posts, Connection(LOOPBACK, posts.port) as link:
            self.assertEqual(link.ask("GET", "/health")[0], 200)
            self.assertEqual(posts.stop(), 0)


class Health(unittest.TestCase):
    def test_it_names_node_source_and_instance_without_secrets(self):
        source = "static:9"
        with Posts(folder, "Healthy", postgres.url, source) as posts:
            status, answer = posts.health()
            self.assertEqual((status, answer["status"], answer["instance"]), (200, "UP", "Healthy"))
            node = answer["components"]["node"]
            self.assertEqual((node["status"], node["node"], node["source"], node["lastError"]), ("UP", 9, source, None))
            self.assertEqual(answer["components"]["database"], {"status": "UP"})
            self.assertEqual(answer["duplicateKeys"], 0)

    def test_a_database_that_goes_and_comes_back(self):
        with Postgres(folder) as database, Posts(folder, "Reconnecting", database.url, "static:1") as posts, \
                Connection(LOOPBACK, posts.port) as link:
            self.assertEqual(link.ask("POST", "/posts", post())[0], 201)
            database.kill()
            status, answer = posts.health()
            self.assertEqual((status, answer["status"]), (503, "DOWN"))
            self.assertEqual(answer["components"]["database"]["status"], "DOWN")
            self.assertEqual(answer["components"]["node"]["status"], "UP")
            status, headers, text = link.ask("POST", "/posts", post())
            self.assertEqual((status, headers["retry-after"]), (503, "1"))
            self.assertIn("GET /posts/", json.loads(text)["detail"])
            self.assertEqual(link.ask("GET", "/posts")[0], 503)
            self.assertEqual(link.ask("GET", "/health/live")[0], 200)
            database.start()
            self.assertEqual(link.ask("POST", "/posts", post())[0], 201)
            self.assertEqual(posts.health()[0], 200)
            # Nobody's post pays for a connection that broke while it lay idle.
            database.kill()
            database.start()
            self.assertEqual(link.ask("POST", "/posts", post())[0], 201)


if __name__ == "__main__":
    unittest.main(verbosity=2)
