#!/usr/bin/env python3
"""The server against what it says of itself: its OpenAPI description, its metrics, its settings, its unit file.

    KAZAHANA=build/kazahana tests/server/test_openapi.py
"""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "faults"))
sys.dont_write_bytecode = True
import test_server as real  # noqa: E402: how a server is started
from services import Redis  # noqa: E402

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")  # HEAD comes with GET by the rules of HTTP
WRONG = {  # values that are not of a type
    "string": (5, 1.5, True, None, [], {}),
    "integer": ("5", 1.5, True, None, [], {}, 1e300),
    "object": ("x", 5, True, None, []),
}
NOT_OBJECTS = ("", "{", "[]", "null", "5", '"x"', "{} {}", b"\xff")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


class Described(real.ServerCase):
    def setUp(self):
        super().setUp()
        self.server = self.serve()
        self.api = self.server.ask("GET", "/openapi.json").json()

    def operations(self):
        for path, methods in self.api["paths"].items():
            for method, operation in methods.items():
                yield path, method.upper(), operation

    def resolve(self, node):
        while "$ref" in node:
            at = self.api
            for name in node["$ref"][2:].split("/"):
                at = at[name]
            node = at
        return node

    def fits(self, value, schema, where):
        """Of a schema what this description uses: types, limits, patterns, properties, items. Nothing else may come."""
        schema = self.resolve(schema)
        types = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        self.assertIn(type(value), [types[kind] for kind in kinds], where)
        if "pattern" in schema:
            self.assertRegex(value, schema["pattern"], where)
        self.assertIn(value, schema.get("enum", [value]), where)
        if isinstance(value, int):
            self.assertTrue(schema.get("minimum", value) <= value <= schema.get("maximum", value), where)
        for name in schema.get("required", ()):
            self.assertIn(name, value, where)
        properties = schema.get("properties", {})
        for name in value if isinstance(value, dict) and "additionalProperties" in schema else ():
            inner = properties.get(name, schema["additionalProperties"])
            self.assertTrue(inner, "%s: %s is not described" % (where, name))
            self.fits(value[name], inner, where + "." + name)
        for item in value if "items" in schema else ():
            self.fits(item, schema["items"], where + "[]")

    def check(self, path, method, operation, answer):
        """The status is among those described, and the body is as described for it."""
        where = "%s %s: %d %r" % (method, path, answer.status, answer.body[:200])
        self.assertIn(str(answer.status), operation["responses"], where)
        content = self.resolve(operation["responses"][str(answer.status)]).get("content", {})
        if content:
            kind = answer.type.split(";")[0]
            self.assertIn(kind, content, where)
            self.fits(answer.body.decode() if kind == "text/plain" else answer.json(), content[kind]["schema"], where)
        if answer.status >= 400 and "application/problem+json" in content:
            self.assertEqual(answer.json()["status"], answer.status, where)

    def example(self, path, name):
        """A good value for a parameter of a path."""
        if path.startswith("/decode"):
            return self.server.ask("GET", "/id").json()["data"]["id_str"]
        if path.startswith("/ui"):
            return "app.js"
        return str(self.lease["id"]) if path == "/lease/{id}" and name == "id" else "1"

    def fill(self, path):
        return re.sub(r"\{(\w+)\}", lambda found: self.example(path, found.group(1)), path)

    def good_body(self, path):
        if path == "/lease":
            return {"serviceId": "default", "meta": {"a": "b"}, "throughputPerMs": 1, "requestId": os.urandom(16).hex()}
        if path == "/lease/{id}":
            now_ms = self.server.ask("GET", "/time").json()["serverTime"]
            return {"signature": real.sign(self.lease["secret"], self.lease["id"], now_ms), "timestamp": now_ms}
        return None

    def test_it_describes_the_paths_and_methods_that_are_there(self):
        self.assertEqual(self.api["openapi"][:2], "3.")
        version = subprocess.run([real.PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(self.api["info"]["version"], version[1])
        for path, methods in self.api["paths"].items():
            concrete = re.sub(r"\{\w+\}", "1", path)
            for method in METHODS:
                answer = self.server.ask(method, concrete, "" if method in ("POST", "PUT", "PATCH") else None)
                where = "%s %s: %d" % (method, path, answer.status)
                if method.lower() in methods:
                    self.assertNotEqual(answer.status, 405, where)
                    if answer.status == 404:  # a lease that is not out; a path would say so
                        self.assertNotIn("path", answer.json()["title"], where)
                else:
                    self.assert_problem(answer, 405)
                    there = sorted(method.upper() for method in methods) + (["HEAD"] if "get" in methods else [])
                    self.assertEqual(sorted(answer.headers["allow"].split(", ")), sorted(there), where)
        for path in "/idx /id/ /ui /ui/ /ui/app.js/x /ID /decode/ /decode/1/2 /lease/ /lease/1/2 /health/x /openapi".split():
            for method in METHODS:
                self.assert_problem(self.server.ask(method, path), 404)

    def test_nothing_is_there_that_it_does_not_describe(self):
        # The server counts by route, so its metrics name every one of them.
        routes = set(re.findall(r'^kazahana_http_requests_total\{.*\broute="([^"]+)"', self.metrics(), re.M)) - {"none"}
        self.assertEqual(routes, set(self.api["paths"]))

    def metrics(self):
        return self.server.ask("GET", "/metrics").body.decode()

    def test_what_it_describes_is_what_comes(self):
        for path, method, operation in self.operations():
            self.lease = self.server.ask("POST", "/lease", {}).json()["leases"][0]
            parameters = [p for p in operation.get("parameters", ()) if p["in"] == "query" and p.get("required")]
            query = "&".join(p["name"] + "=3" for p in parameters)
            target = self.fill(path) + ("?" + query if query else "")
            answer = self.server.ask(method, target, self.good_body(path))
            self.assertLess(answer.status, 300, (method, path, answer.body))
            self.check(path, method, operation, answer)

    def test_wrong_parameters_get_a_status_that_is_described(self):
        self.lease = self.server.ask("POST", "/lease", {}).json()["leases"][0]
        tried = 0
        for path, method, operation in self.operations():
            for parameter in operation.get("parameters", ()):
                schema = parameter["schema"]
                unreadable = ["%00", "%zz", "%4", "a" * 200]
                values = ["x", "1.5", "-1", "%ff", *unreadable]
                if schema["type"] == "integer":
                    values += ["", "0x1", "1e3", "99999999999"]
                for limit, step in (("minimum", -1), ("maximum", 1)):
                    if limit in schema:
                        values.append(str(schema[limit] + step))
                for value in values:
                    target = self.fill(path)
                    if parameter["in"] == "path":
                        if not value:
                            continue
                        target = path.replace("{%s}" % parameter["name"], value)
                    else:
                        target += "?%s=%s" % (parameter["name"], value)
                    body = self.good_body(path)
                    answer = self.server.ask(method, target, body)
                    self.check(path, method, operation, answer)
                    tried += 1
                    if path == "/ui/{file}" and len(value) == 200:  # a name that no file has
                        self.assertEqual(answer.status, 404, (method, target, answer.body))
                    elif schema["type"] == "integer" or value in unreadable:
                        self.assertEqual(answer.status, 400, (method, target, answer.body))
                if parameter["in"] == "query" and parameter.get("required"):
                    self.assert_problem(self.server.ask(method, self.fill(path)), 400)
                for limit in ("minimum", "maximum"):
                    if limit in schema and parameter["in"] == "query":
                        target = "%s?%s=%d" % (self.fill(path), parameter["name"], schema[limit])
                        self.assertEqual(self.server.ask(method, target).status, 200, target)
        self.assertGreater(tried, 30)

    def test_wrong_bodies_get_a_status_that_is_described(self):
        self.lease = self.server.ask("POST", "/lease", {}).json()["leases"][0]
        tried = 0
        for path, method, operation in self.operations():
            if "requestBody" not in operation:
                continue
            schema = self.resolve(operation["requestBody"]["content"]["application/json"]["schema"])
            good, bodies = self.good_body(path), list(NOT_OBJECTS)
            for name in schema.get("required", ()):
                bodies.append({key: value for key, value in good.items() if key != name})
            bodies.append(dict(good, unheard=1))
            for name, inner in schema["properties"].items():
                inner = self.resolve(inner)
                bodies += [dict(good, **{name: value}) for value in WRONG[inner["type"]]]
                if "minimum" in inner:
                    bodies += [dict(good, **{name: value}) for value in (inner["minimum"] - 1, -1, 1 << 63, 10**30)]
                for part in inner.get("properties", ()):
                    bodies += [dict(good, **{name: {part: value}}) for value in WRONG["integer"] + (-1, 1 << 60)]
                if inner.get("additionalProperties"):
                    kind = inner["additionalProperties"]["type"]
                    bodies += [dict(good, **{name: {"a": value}}) for value in WRONG[kind]]
            for body in bodies:
                with self.subTest(path=path, body=body):
                    answer = self.server.ask(method, self.fill(path), body)
                    self.check(path, method, operation, answer)
                    self.assertEqual(answer.status, 400, answer.body)
                    tried += 1
            # Optional ones may be left out, each and all.
            for name in set(schema["properties"]) - set(schema.get("required", ())):
                good = self.good_body(path)
                answer = self.server.ask(method, self.fill(path), {k: v for k, v in good.items() if k != name})
                self.assertIn(answer.status, (200, 204, 404), answer.body)
        self.assertGreater(tried, 40)

    def test_a_token_is_asked_for_where_it_says_so(self):
        path = os.path.join(self.folder, "tokens")
        with open(path, "w") as file:
            file.write(real.TOKEN + "\n")
        server = self.serve("--token-file", path)
        for where, method, operation in self.operations():
            answer = server.ask(method, re.sub(r"\{\w+\}", "1", where))
            wants = any("bearer" in way for way in operation.get("security", ()))
            self.assertEqual(answer.status == 401, wants, (method, where, answer.status))
            if wants:
                self.check(where, method, operation, answer)


class Strict(real.ServerCase):
    """What is unknown is refused, with its name; what means the same is the same."""

    def setUp(self):
        super().setUp()
        self.server = self.serve()

    def refused(self, *request):
        return self.assert_problem(self.server.ask(*request), 400)["detail"]

    def test_an_unknown_field_is_named_with_the_one_that_was_meant(self):
        self.assertIn('"service" is not known here: did you mean "serviceId"?', self.refused("POST", "/lease", {"service": "a"}))
        self.assertIn("known are serviceId", self.refused("POST", "/lease", {"colour": "blue"}))
        self.assertIn('"clockback"', self.refused("POST", "/lease", {"used": {"clockback": 1}}))
        self.assertIn('did you mean "signature"', self.refused("DELETE", "/lease/1", {"signatur": "00", "timestamp": 1}))
        for name in ("\u00fc" * 200, '"\n', "serviceId\u0000x", ""):
            self.refused("POST", "/lease", {name: 1})
        before = len(self.server.ask("GET", "/leases").json()["leases"])
        self.refused("POST", "/lease", {"serviceId": "default", "extra": 1})
        self.assertEqual(len(self.server.ask("GET", "/leases").json()["leases"]), before)

    def test_an_unknown_or_repeated_query_key_is_named(self):
        self.assertIn('did you mean "count"', self.refused("GET", "/ids?coun=3"))
        self.assertIn('"count" is given twice', self.refused("GET", "/ids?count=3&count=3"))
        self.assertIn('"count" needs a value', self.refused("GET", "/ids?count"))
        for target in ("/id?x=1", "/health?verbose", "/leases?limit=1&Limit=1", "/ids?count=1&%63ount=1", "/id?=", "/time?%zz=1"):
            self.refused("GET", target)
        self.refused("DELETE", "/lease/1?service=a", {"signature": "0" * 64, "timestamp": 1})
        for target in ("/ids?%63ount=3", "/ids?count=3&", "/id?", "/ids?count=%33"):
            self.assertEqual(self.server.ask("GET", target).status, 200, target)

    def test_a_number_with_a_zero_fraction_is_an_integer(self):
        for body in ('{"throughputPerMs":1520.0}', '{"throughputPerMs":1.5e3}', '{"used":{"ids":2.0}}'):
            self.assertEqual(self.server.ask("POST", "/lease", body).status, 200, body)
        for body in ('{"throughputPerMs":1520.5}', '{"throughputPerMs":1e300}', '{"throughputPerMs":0.0}',
                     '{"throughputPerMs":4294967296.0}', '{"used":{"ids":-1.0}}'):
            self.refused("POST", "/lease", body)

    def test_paths_are_percent_decoded(self):
        self.assertEqual(self.server.ask("GET", "/%69d").status, 200)
        number = self.server.ask("GET", "/id").json()["data"]["id_str"]
        answer = self.server.ask("GET", "/%64ecode/" + "".join("%%%02x" % ord(digit) for digit in number))
        self.assertEqual(answer.json()["data"]["id_str"], number)
        for path in ("/%zz", "/i%", "/id%00", "/%6"):
            self.refused("GET", path)
        self.assert_problem(self.server.ask("GET", "/id%2f"), 404)
        self.assert_problem(self.server.ask("GET", "/i%25d"), 404)

    def test_an_id_comes_as_text_to_whoever_prefers_that(self):
        for accept, lines in (
            ("text/plain", True), ("text/plain;q=0.9, application/json;q=0.5", True), ("text/*", True),
            ("TEXT/PLAIN", True), ("text/plain, */*;q=0.1", True), ("text/plain, */*", True),
            ("application/json, text/plain, */*", False), ("*/*", False), ("text/html, */*", False),
            ("text/plain;q=0", False), ("text/plain;q=0.5, application/json", False), ("", False),
        ):
            for path in ("/id", "/ids?count=1"):
                answer = self.server.ask("GET", path, headers={"Accept": accept})
                self.assertEqual(answer.type.startswith("text/plain"), lines, (accept, answer.type))
                if lines:
                    self.assertRegex(answer.body, rb"^\d+\n$")
                else:
                    answer.json()

    def test_typed_external_ids_are_decoded(self):
        number = self.server.ask("GET", "/id").json()["data"]["id_str"]

        def external(*more):
            done = subprocess.run([real.PROGRAM, "external", "--type", "user", number, *more], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.strip()

        data = self.server.ask("GET", "/decode/" + external()).json()["data"]
        self.assertEqual((data["id_str"], data["type"]), (number, "user"))
        self.refused("GET", "/decode/User_" + external()[5:])
        self.refused("GET", "/decode/" + "x" * 17 + "_" + external()[5:])
        # With keys: for those who have a token.
        keys, tokens = os.path.join(self.folder, "keys"), os.path.join(self.folder, "tokens")
        for path, text in ((keys, "1 xtea 000102030405060708090a0b0c0d0e0f\n"), (tokens, real.TOKEN + "\n")):
            with open(path, "w") as file:
                file.write(text)
        server = self.serve("--key-file", keys, "--token-file", tokens)
        hidden = external("--key-file", keys)
        self.assertNotEqual(hidden, external())
        self.assert_problem(server.ask("GET", "/decode/" + hidden), 401)
        answer = server.ask("GET", "/decode/" + hidden, headers={"Authorization": "Bearer " + real.TOKEN})
        self.assertEqual(answer.json()["data"]["id_str"], number)

    def test_what_clients_used_is_added_up(self):
        def used(text, name):
            return {labels: int(n) for labels, n in re.findall(r"^kazahana_client_%s\{(.*)\} (\d+)$" % name, text, re.M)}

        report = {"ids": 1000, "fenced": 20, "unfenced": 3, "exhausted": 4, "clockBack": 5}
        lease = self.server.ask("POST", "/lease", {"serviceId": "s", "used": report}).json()["leases"][0]
        self.server.ask("POST", "/lease", {"serviceId": "s", "used": {"ids": 7}})
        now_ms = self.server.ask("GET", "/time").json()["serverTime"]
        body = {"signature": real.sign(lease["secret"], lease["id"], now_ms), "timestamp": now_ms, "used": {"ids": 1}}
        wrong = dict(body, signature="0" * 64)
        self.assert_problem(self.server.ask("DELETE", "/lease/%d?serviceId=s" % lease["id"], wrong), 403)  # counts nothing
        self.assertEqual(self.server.ask("DELETE", "/lease/%d?serviceId=s" % lease["id"], body).status, 204)
        text = self.server.ask("GET", "/metrics").body.decode()
        kinds = used(text, "ids_total")
        self.assertEqual([kinds['service="s",kind="%s"' % kind] for kind in ("leased", "fenced", "unfenced")], [1008, 20, 3])
        self.assertEqual(used(text, "exhausted_total")['service="s"'], 4)
        self.assertEqual(used(text, "clock_back_total")['service="s"'], 5)


@unittest.skipUnless(shutil.which("curl") and shutil.which("openssl"), "curl or openssl is not installed")
class HttpPage(real.ServerCase):
    def shell(self, lines):
        script = "set -eu\nU=%s\n%s\n" % (self.server.url, lines)
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, (lines, done.stderr))
        return done.stdout

    def test_its_commands_do_what_it_says(self):
        self.server = self.serve()
        page = read("docs", "http.md").split("## IDs", 1)[1]
        # Indented blocks are commands; where JSON follows, the answer has the same members.
        blocks = re.findall(r"(?m)((?:^    .*\n|^\n(?=    ))+)(?:\n```json\n((?:.*\n)*?)```)?", page)
        self.assertGreater(len(blocks), 7)
        for commands, shown in blocks:
            answer = self.shell(commands)
            if "-X DELETE" in commands:
                self.assertEqual(answer, "204\n")
            if shown:
                self.assertEqual(shape(json.loads(answer)), shape(json.loads(shown)), commands)


def shape(value):
    """What a JSON value is made of, whatever the numbers and texts are."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


class Page(real.ServerCase):
    """What the page consists of; what it does is looked at in a browser, by tests/ui."""

    BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
              "frame-ancestors 'none'; base-uri 'none'; form-action 'none'")

    def files(self, server):
        root = server.ask("GET", "/", headers=self.BROWSER)
        names = set(re.findall(r'(?:src|href)="(/ui/[^"]+)"', root.body.decode()))
        found = {"/": root}
        while names - set(found):
            name = (names - set(found)).pop()
            found[name] = server.ask("GET", name)
            names |= {"/ui/" + name for name in re.findall(r"from '\./([^']+)'", found[name].body.decode())}
        return found

    def test_it_is_small_strict_and_asked_for_once(self):
        server = self.serve()
        files = self.files(server)
        self.assertEqual(len(files), 6)
        self.assertLess(sum(len(answer.body) for answer in files.values()), 60000)
        for path, answer in files.items():
            self.assertEqual(answer.status, 200, path)
            self.assertEqual(answer.headers["content-security-policy"], self.POLICY)
            self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
            self.assertEqual(answer.headers["referrer-policy"], "no-referrer")
            self.assertEqual(answer.headers["cache-control"], "no-cache")
            again = server.ask("GET", path, headers=dict(self.BROWSER, **{"If-None-Match": answer.headers["etag"]}))
            self.assertEqual((again.status, again.body), (304, b""), path)
            other = server.ask("GET", path, headers=dict(self.BROWSER, **{"If-None-Match": '"another"'}))
            self.assertEqual((other.status, other.body), (200, answer.body), path)
            # Nothing of it is from elsewhere, and nothing is put in as markup.
            self.assertNotRegex(answer.body.decode().replace("http://www.w3.org/2000/svg", ""), "https?:|//[a-z]+[.]")
            self.assertNotRegex(answer.body.decode(), r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|style=")

    def test_programs_get_the_list_of_paths(self):
        server = self.serve()
        for accept in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
            answer = server.ask("GET", "/", headers=accept)
            self.assertEqual((answer.status, answer.type, answer.headers["vary"]), (200, "application/json", "Accept"))
            described = server.ask("GET", "/openapi.json").json()["paths"]
            self.assertEqual(set(answer.json()["paths"]),
                             {f"{method.upper()} {path}" for path, methods in described.items() for method in methods})
            self.assertEqual(answer.headers["cache-control"], "no-store")

    def test_it_can_be_left_out(self):
        server = self.serve("--ui", "off")
        self.assertEqual(server.ask("GET", "/", headers=self.BROWSER).type, "application/json")
        self.assertNotIn("GET /ui/{file}", server.ask("GET", "/").json()["paths"])
        self.assertIn("ui = off", self.assert_problem(server.ask("GET", "/ui/app.js"), 404)["detail"])


class Metrics(real.ServerCase):
    def setUp(self):
        super().setUp()
        self.server = self.serve()
        for path in ("/id", "/ids?count=5", "/nowhere", "/health"):
            self.server.ask("GET", path)
        self.server.ask("POST", "/lease", {})
        self.text = self.server.ask("GET", "/metrics").body.decode()

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_promtool_finds_nothing(self):
        done = subprocess.run(
            ["promtool", "check", "metrics"], input=self.text, capture_output=True, text=True, timeout=real.PATIENCE_S
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def counted(self, text):
        """Requests by method, route and class of status."""
        pattern = r'^kazahana_http_requests_total\{method="(.+)",route="(.+)",status="(.+)"\} (\d+)$'
        return {found[:3]: int(found[3]) for found in re.findall(pattern, text, re.M)}

    def test_requests_are_counted_by_method_route_and_class(self):
        before = self.counted(self.text)
        self.assertEqual(before["GET", "/id", "2xx"], 1)
        self.assertEqual(before["POST", "/lease", "2xx"], 1)
        self.assertEqual(before["other", "none", "4xx"], 1)
        for method, path in (
            ("HEAD", "/id"), ("GET", "/ids"), ("DELETE", "/lease/x"), ("PUT", "/id"), ("GET", "/decode/7"),
        ):
            self.server.ask(method, path)
        for i in range(20):
            self.server.ask("GET", "/nowhere/%d" % i)
        text = self.server.ask("GET", "/metrics").body.decode()
        after = self.counted(text)
        self.assertEqual(
            {name: count - before[name] for name, count in after.items() if count != before[name]},
            {
                ("GET", "/id", "2xx"): 1, ("GET", "/ids", "4xx"): 1, ("DELETE", "/lease/{id}", "4xx"): 1,
                ("GET", "/decode/{id}", "2xx"): 1, ("other", "none", "4xx"): 21, ("GET", "/metrics", "2xx"): 1,
            },
        )
        # Whatever is asked for, there are no more of them; and each histogram has as many as were counted.
        self.assertEqual(len(re.findall("^kazahana_http", text, re.M)), len(re.findall("^kazahana_http", self.text, re.M)))
        for method, route, count in re.findall(
            r'^kazahana_http_request_seconds_count\{method="(.+)",route="(.+)"\} (\d+)$', text, re.M
        ):
            self.assertEqual(int(count), sum(n for name, n in after.items() if name[:2] == (method, route)))

    def test_connections_beyond_the_limit_are_counted(self):
        server = self.serve("--connections", "2")
        with contextlib.closing(server.connect()) as one, contextlib.closing(server.connect()) as two:
            for connection in (one, two):
                connection.request("GET", "/id")
                self.assertEqual(real.Answer(connection.getresponse()).status, 200)
            answer = server.ask("GET", "/id")
            self.assert_problem(answer, 503)
            self.assertIn("retry-after", answer.headers)
            one.request("GET", "/metrics")
            text = real.Answer(one.getresponse()).body.decode()
        self.assertIn("\nkazahana_http_connections 2\n", text)
        self.assertIn("\nkazahana_http_refused_total 1\n", text)

    def results(self, name):
        pattern = r'^%s\{service="([^"]*)",result="(\w+)"\} (\d+)$' % name
        text = self.server.ask("GET", "/metrics").body.decode()
        found = {(service, result): int(count) for service, result, count in re.findall(pattern, text, re.M)}
        # Each line is one of these, and none comes twice.
        self.assertEqual(len(found), len(re.findall("^%s" % name, text, re.M)))
        return found

    def test_services_that_clients_make_up_stay_few_and_harmless(self):
        for name in ('x"} 1\nevil{a="', "a/b", "\u00fc"):
            self.assert_problem(self.server.ask("POST", "/lease", {"serviceId": name}), 400)
        body = {"signature": "0" * 64, "timestamp": self.server.ask("GET", "/time").json()["serverTime"]}
        self.assert_problem(self.server.ask("DELETE", "/lease/0?serviceId=unheard-of", body), 404)
        self.assertEqual(self.results("kazahana_lease_releases_total")["other", "refused"], 1)
        names = ["s%d" % i for i in range(120)] + ["other"]
        leases = {name: self.server.ask("POST", "/lease", {"serviceId": name}).json()["leases"][0] for name in names}
        acquired = self.results("kazahana_lease_acquisitions_total")
        self.assertEqual(sum(acquired.values()), 1 + len(names))  # and one of setUp
        self.assertEqual(acquired["s0", "granted"], 1)
        self.assertGreater(acquired["other", "granted"], 1)
        self.assertLess(len({service for service, _ in acquired}), 102)
        # A release that names no service is counted where the lease was.
        now_ms = self.server.ask("GET", "/time").json()["serverTime"]
        body = {"signature": real.sign(leases["s0"]["secret"], 0, now_ms), "timestamp": now_ms}
        self.assertEqual(self.server.ask("DELETE", "/lease/0", body).status, 204)
        self.assertEqual(self.results("kazahana_lease_releases_total")["s0", "done"], 1)

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_the_alerts_are_rules(self):
        alerts = os.path.join(ROOT, "deploy", "alerts.yml")
        done = subprocess.run(["promtool", "check", "rules", alerts], capture_output=True, text=True, timeout=real.PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_alerts_and_dashboard_name_is_there(self):
        there = set(re.findall(r"^(kazahana_\w+)[{ ]", self.text, re.M))
        there |= set(re.findall(r"^# TYPE (kazahana_\w+) ", self.text, re.M))
        dashboard = read("deploy", "grafana-dashboard.json")
        json.loads(dashboard)
        named = set(re.findall(r"\bkazahana_\w+", read("deploy", "alerts.yml") + dashboard))
        self.assertGreater(len(named), 10)
        self.assertEqual(named - there, set())

    def test_the_operations_page_names_no_others(self):
        families = set(re.findall(r"^# TYPE (kazahana_\w+) ", self.text, re.M))
        named = set(re.findall(r"\bkazahana_\w+", read("docs", "operations.md")))
        self.assertEqual(named - families, set())


def rectangles(leases):
    """(first slot, past the last, from, until) of each lease and of its twin."""
    for lease in leases:
        size = 1 << lease["bitSeq"]
        twin = lease["id"] + (1 << lease["bitId"] - 1)
        yield lease["id"] * size, (lease["id"] + 1) * size, lease["created"], lease["expired"]
        yield twin * size, (twin + 1) * size, lease["fallbackCreated"], lease["fallbackExpired"]


class SettingsCase(real.ServerCase):
    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o600)
        return path

    def reload(self, server):
        """Sends SIGHUP, waits until it was heeded; what was logged meanwhile."""
        before = len(server.log())
        server.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + real.PATIENCE_S
        while time.monotonic() < until:
            if re.search(r"event=reloaded|level=error event=reload\b", server.log()[before:]):
                server.ask("GET", "/time")  # behind the services in the store's queue
                return server.log()[before:]
            time.sleep(0.01)
        self.fail("no answer to SIGHUP: " + server.log())

    def service(self, layout, more=""):
        return self.write("kazahana.conf", more + '[service "s"]\nlayout = %s\nlease = 10min\n' % layout)

    def acquire(self, server, throughput=1, **headers):
        body = {"serviceId": "s", "throughputPerMs": throughput}
        answer = server.ask("POST", "/lease", body, headers)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()["leases"]

    def assert_apart(self, leases):
        all_of_them = sorted(rectangles(leases))
        for i, a in enumerate(all_of_them):
            for b in all_of_them[i + 1:]:
                self.assertFalse(a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3], (a, b))


class ServiceSettings(SettingsCase):
    def test_the_list_shows_rectangles(self):
        server = self.serve("--config", self.service("41-14-8@2026-01-01"))
        lease = server.ask("POST", "/lease", {"serviceId": "shown", "meta": {"host": "a"}}).json()["leases"][0]
        line = server.ask("GET", "/leases?after=shown&limit=1").json()["leases"][0]
        same = ("id", "bitId", "bitSeq", "created", "expired", "fallbackCreated", "fallbackExpired")
        self.assertEqual(line, {"service": "shown", "meta": {"host": "a"}, **{name: lease[name] for name in same}})

    def test_bits_move_while_leases_are_out(self):
        server = self.serve("--config", self.service("41-14-8@2026-01-01"))
        old = self.acquire(server, 256 * 6) + self.acquire(server)
        self.assertEqual({(lease["bitId"], lease["bitSeq"]) for lease in old}, {(14, 8)})
        self.service("41-12-10@2026-01-01")
        self.assertNotIn("level=error", self.reload(server))
        new = self.acquire(server, 1024 * 8) + self.acquire(server)
        self.assertEqual({(lease["bitId"], lease["bitSeq"]) for lease in new}, {(12, 10)})
        self.assert_apart(old + new)
        self.service("41-14-8@2026-01-01")
        self.assertNotIn("level=error", self.reload(server))
        back = self.acquire(server, 256 * 6)
        self.assertEqual({(lease["bitId"], lease["bitSeq"]) for lease in back}, {(14, 8)})
        self.assert_apart(old + new + back)
        # A lease of before is still given back by its number.
        now_ms = server.ask("GET", "/time").json()["serverTime"]
        body = {"signature": real.sign(old[0]["secret"], old[0]["id"], now_ms), "timestamp": now_ms}
        self.assertEqual(server.ask("DELETE", "/lease/%d?serviceId=s" % old[0]["id"], body).status, 204)

    def test_another_epoch_is_refused_with_both_named(self):
        server = self.serve("--config", self.service("41-14-8@2026-01-01"))
        old = self.acquire(server)
        self.service("41-14-8@2025-01-01")
        log = self.reload(server)
        refusal = [line for line in log.splitlines() if "level=error" in line]
        self.assertEqual(len(refusal), 1, log)
        self.assertIn("2025-01-01", refusal[0])
        self.assertIn("2026-01-01", refusal[0])
        new = self.acquire(server)
        self.assertEqual(new[0]["customEpoch"], old[0]["customEpoch"])
        self.assert_apart(old + new)
        # Nor does a server start on it.
        other = self.serve("--config", self.service("41-14-8@2025-01-01"), wait=False)
        self.assertEqual(other.wait(real.PATIENCE_S), 1)
        self.assertIn("2025-01-01", other.log())
        self.assertIn("2026-01-01", other.log())
        self.assertNotIn("event=listening", other.log())

    def test_length_and_throughput_count_from_the_next_grant_on(self):
        server = self.serve("--config", self.service("41-14-8@2026-01-01"))
        old = self.acquire(server)[0]
        path = self.service("41-14-8@2026-01-01")
        with open(path, "a") as file:
            file.write("max_throughput = 512\nhigh_blocks = yes\n")
        self.write("kazahana.conf", read(path).replace("10min", "20min"))
        self.assertNotIn("level=error", self.reload(server))
        new = self.acquire(server, 512)
        self.assertEqual([(lease["bitSeq"], lease["expired"] - lease["created"]) for lease in new], [(9, 1200000)])
        self.assertEqual(old["expired"] - old["created"], 600000)
        self.assert_problem(server.ask("POST", "/lease", {"serviceId": "s", "throughputPerMs": 513}), 400)

    def test_health_is_of_the_service_that_ids_are_minted_for(self):
        server = self.serve("--config", self.service("41-10-12@2026-01-01", "service = s\n"))
        self.assertEqual(server.ask("GET", "/health").json()["components"]["store"]["layout"], "41-10-12@2026-01-01")


@unittest.skipIf(Redis.missing(), "redis-server is not installed")
class ServiceSettingsInRedis(ServiceSettings):
    def setUp(self):
        super().setUp()
        redis = Redis(self.folder).start()
        self.cleanups.append(redis.kill)
        self.store = redis.url

    def test_answers_about_several_services_have_one_generation(self):
        server = self.serve("--config", self.service("41-14-8@2026-01-01"))
        seen = []
        for service in ("s", "default", "s", "t", "default"):
            seen.append(server.ask("POST", "/lease", {"serviceId": service}).json()["generation"])
            seen.append(server.ask("GET", "/time").json()["generation"])
        self.assertEqual(seen, sorted(seen))


class Settings(SettingsCase):
    def test_tokens_are_read_again(self):
        old, new = real.TOKEN, "a-newer-token-for-this-test-0002"
        tokens = self.write("tokens", old + "\n")
        more = "token_file = %s\n" % tokens
        server = self.serve("--config", self.service("41-14-8@2026-01-01", more))

        def status(token):
            return server.ask("POST", "/lease", {}, {"Authorization": "Bearer " + token}).status

        self.assertEqual((status(old), status(new)), (200, 401))
        self.write("tokens", "%s\n%s\n" % (old, new))
        self.reload(server)
        self.assertEqual((status(old), status(new)), (200, 200))
        self.write("tokens", new + "\n")
        self.reload(server)
        self.assertEqual((status(old), status(new)), (401, 200))
        # A file without a token opens no door, and a config file with an error changes nothing.
        self.write("tokens", "# none\n")
        self.assertIn("level=error", self.reload(server))
        self.assertEqual((status(old), status(new)), (401, 200))
        self.service("41-14-8@2026-01-01", more + "log_level = silly\n")
        self.assertRegex(self.reload(server), r"level=error .*kazahana\.conf:2")
        self.service("41-14-8@2026-01-01", more + "listen = 127.0.0.1:1\nthroughput = 512\n")
        self.write("tokens", new + "\n")
        self.assertRegex(self.reload(server), r"level=warning .*throughput")  # waits for a restart
        for token in (old, new):
            self.assertNotIn(token, server.log())

    def test_the_log_level_is_read_again(self):
        server = self.serve("--config", self.service("41-14-8@2026-01-01"))
        self.assertIn("event=reloaded", self.reload(server))
        self.service("41-14-8@2026-01-01", "log_level = error\n")
        before = server.log()
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        self.assertEqual(server.log(), before)
        self.service("41-14-8@2026-01-01", "log_level = info\n")
        self.assertIn("event=reloaded", self.reload(server))

    def test_it_may_open_as_many_files_as_it_has_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        try:
            good = self.serve("--connections", "500")
            bad = self.serve("--connections", str(min(hard, 1000000)))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        limit = re.search(r"Max open files +(\d+)", read("/proc/%d/limits" % good.process.pid))
        self.assertGreater(int(limit.group(1)), 500)
        self.assertNotIn("event=limits", good.log())
        if hard < 1000000:
            self.assertRegex(bad.log(), r"level=warning event=limits .*%d are allowed" % hard)

    def check_config(self, text, *arguments):
        return subprocess.run(
            [real.PROGRAM, "serve", "--config", self.write("checked.conf", text), "--check-config", *arguments],
            env=real.environment(), capture_output=True, text=True, timeout=real.PATIENCE_S,
        )

    def test_settings_are_checked_without_starting(self):
        done = self.check_config("listen = 127.0.0.1:7070\n[profile \"dev\"]\nlog_level = debug\n", "--profile", "dev")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("good", done.stdout)
        for line, text in (
            (1, "colour = blue\n"), (2, "log_level = info\nloops = many\n"), (2, '[service "s"]\nlayout = 41-14\n'),
            (2, '[profile "unused"]\nidle_timeout = 5\n'), (1, "listen\n"), (1, "listen = somewhere\n"),
            (2, '[service "s"]\nlease = 1ms\n'), (1, '[service "a/b"]\nlease = 10s\n'),
        ):
            with self.subTest(text=text):
                done = self.check_config(text)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn("checked.conf:%d" % line, done.stderr)
        self.assertNotEqual(self.check_config("", "--profile", "absent").returncode, 0)
        self.assertEqual(self.check_config("", "--no-such-flag").returncode, 2)

    def test_the_example_and_its_profiles_are_good(self):
        for profile in ("dev", "staging", "prod"):
            tokens = self.write("tokens", real.TOKEN + "\n")
            text = read("deploy", "kazahana.conf").replace("/etc/kazahana/tokens", tokens)
            done = self.check_config(text, "--profile", profile)
            self.assertEqual((done.returncode, done.stderr), (0, ""), profile)


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
class Unit(real.ServerCase):
    def analyze(self, *arguments):
        """On a copy that names the program that is tested: the real one need not be installed."""
        path = os.path.join(self.folder, "kazahana.service")
        unit = read("deploy", "kazahana.service")
        self.assertIn("ExecStart=kazahana ", unit)
        with open(path, "w") as file:
            file.write(unit.replace("ExecStart=kazahana ", "ExecStart=%s " % real.PROGRAM))
        return subprocess.run(["systemd-analyze", *arguments, path], capture_output=True, text=True, timeout=60)

    def test_systemd_understands_it(self):
        done = self.analyze("verify", "--man=no")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("kazahana.service", done.stderr)

    def test_it_is_confined(self):
        done = self.analyze("security", "--offline=true", "--threshold=20", "--no-pager")
        if "unrecognized option" in done.stderr:
            self.skipTest("this systemd-analyze cannot judge a file")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
