"""The program as its users meet it: every subcommand run for real. KAZAHANA names the program."""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import parallel  # noqa: E402
from services import Redis, free_port  # noqa: E402

PROGRAM = os.environ.get("KAZAHANA", "build/kazahana")
VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors", "ids.json")
COMMANDS = ["next", "decode", "external", "internal", "range", "layout", "mono", "uuid", "leases", "doctor", "bench"]
SNOWFLAKE_EPOCH_MS = 1704067200000
PATIENCE_S = 120  # for what takes a moment: only a program that hangs is ever waited for so long

with open(VECTORS, encoding="utf-8") as vectors:
    VECTOR = json.load(vectors)

# A build without the server's libraries has no serve.
if "\n  serve " in subprocess.run([PROGRAM, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout:
    COMMANDS.append("serve")

# The embedded default is a file in here: no test comes near the leases of whoever runs it.
STATE = tempfile.TemporaryDirectory(prefix="kazahana-test-")
os.environ["XDG_STATE_HOME"] = STATE.name


def run(*args, stdin="", env=None, **options):
    """Runs the program; standard input is a pipe, never a terminal."""
    environment = {key: value for key, value in os.environ.items() if key != "WORKER_ID"}
    environment.update(env or {})
    return subprocess.run([PROGRAM, *args], input=stdin, env=environment, text=True, timeout=PATIENCE_S,
                          stdout=options.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE, check=False, **options)


def on_terminal(*args, env=None, stream="stdout"):
    """Runs the program with one of its streams on a terminal, the other to nowhere; what the terminal showed."""
    parent, child = pty.openpty()
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: child}
    with subprocess.Popen([PROGRAM, *args], env={**os.environ, **(env or {})}, **streams) as process:
        os.close(child)
        shown = b""
        try:
            while piece := os.read(parent, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        os.close(parent)
        return process.wait(timeout=PATIENCE_S), shown.decode()


def unread_bytes(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


class Case(unittest.TestCase):
    def done(self, *args, **options):
        result = run(*args, **options)
        self.assertEqual((result.returncode, result.stderr), (0, ""), args)
        return result.stdout

    def lines(self, *args, **options):
        return self.done(*args, **options).splitlines()

    def refused(self, status, *args, says=(), **options):
        """Nothing on stdout, a message that names what was wrong, and the exit status."""
        result = run(*args, **options)
        self.assertEqual(result.returncode, status, (args, result.stderr))
        self.assertEqual(result.stdout, "", args)
        self.assertTrue(result.stderr.startswith("kazahana: "), (args, result.stderr))
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, result.stderr, args)
        if status == 2:
            self.assertIn("--help", result.stderr, args)
        return result.stderr


class Program(Case):
    def test_every_command_teaches_with_examples(self):
        for command in COMMANDS:
            text = self.done(command, "--help")
            self.assertTrue(text.startswith(f"Usage: kazahana {command}"), command)
            self.assertIn("Examples:\n  ", text, command)
            self.assertEqual(self.done("help", command), text)
            self.assertEqual(self.done(command, "-h"), text)
            self.assertRegex(self.done(command, "--version"), r"^kazahana \d+\.\d+\.\d+\n$")

    def test_the_help_lists_every_command(self):
        text = self.done("--help")
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {command} ")
        self.assertEqual(self.done("help"), text)
        self.assertEqual(self.done("help", "--help"), text)
        self.assertEqual(self.done("help", "-h"), text)

    def test_the_version_is_one_line(self):
        self.assertRegex(self.done("--version"), r"^kazahana \d+\.\d+\.\d+\n$")

    def test_wrong_usage_is_told_apart_and_says_where_the_help_is(self):
        self.refused(2, says="no command")
        self.refused(2, "nxt", says="did you mean next?")
        self.refused(2, "zzzzzz", says="zzzzzz")
        self.refused(2, "--zzz", says="--zzz")
        self.refused(2, "help", "zzz", says="zzz")
        for command in COMMANDS:
            self.refused(2, command, "--no-such-option", says=["--no-such-option", f"see kazahana {command} --help"])
        self.refused(2, "next", "--fromm", "static:1?lock=no", says="did you mean --from?")
        self.refused(2, "next", "--from", says="--from needs a value")
        self.refused(2, "layout", "--json=1", says="takes no value")
        self.refused(2, "next", "extra", says="extra")

    def test_numbers_that_are_none_are_wrong_usage(self):
        for bad in ["-1", "abc", "1.5", "", " 1", "1x", "0x10", "9223372036854775809", "99999999999999999999999"]:
            for command in (["next", "--from", "static:1?lock=no"], ["mono"], ["uuid", "--node", "1"]):
                self.refused(2, *command, "-n", bad, says=f"--count {bad}")
        for option, bad in [("--timeout", "soon"), ("--rate", "fast"), ("--rate", "0"), ("--rate", "-1"),
                            ("--rate", "inf"), ("--rate", "5/year"), ("--format", "octal"), ("--backward", "wait:x"),
                            ("--backward", "perhaps"), ("--fallback", "maybe"), ("--seq-start", "one"),
                            ("--clock", "sundial"), ("--throughput", "0"), ("--throughput", "4:2"),
                            ("--throughput", "x"), ("--throughput", "1:"), ("--throughput", ":5"),
                            ("--throughput", "1:2:3"), ("--throughput", "256:99999999999"),
                            ("--throughput", "-1:5"), ("--throughput", "1" * 40)]:
            self.refused(2, "next", "--from", "static:1?lock=no", option, bad, says=[option, bad])

    def test_a_full_disk_is_an_error(self):
        for args in (["--help"], ["next", "--from", "static:1?lock=no"], ["layout"], ["mono", "-n", "100000"],
                     ["next", "--help"], ["decode", "1"], ["uuid", "--node", "1"], ["external", "1"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = run(*args, stdout=full)
            self.assertEqual(result.returncode, 1, args)
            self.assertIn("No space left on device", result.stderr)

    def test_a_reader_that_goes_away_ends_the_program_quietly(self):
        for args in (["next", "--from", "static:1?lock=no", "-n", "100000000"], ["mono", "-n", "100000000"],
                     ["uuid", "--node", "1", "-n", "100000000"]):
            with subprocess.Popen([PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                self.assertTrue(process.stdout.readline())
                process.stdout.close()
                self.assertEqual(process.stderr.read(), b"")
                self.assertEqual(process.wait(timeout=PATIENCE_S), 1, args)

    def test_colours_are_for_terminals_and_not_for_those_who_decline(self):
        self.assertIn("\033[1m", on_terminal("layout", env={"NO_COLOR": ""})[1])
        self.assertNotIn("\033", on_terminal("layout", env={"NO_COLOR": "1"})[1])
        self.assertNotIn("\033", self.done("layout"))

    def test_values_cannot_command_the_terminal(self):
        self.assertNotIn("\033", self.refused(1, "decode", "\033[31m"))


class Next(Case):
    def test_a_million_ids_increase_and_are_of_their_node_and_time(self):
        before_ms = time.time_ns() // 1000000
        ids = [int(line) for line in self.lines("next", "-n", "1000000", "--from", "static:5?lock=no", "--layout", "snowflake")]
        after_ms = time.time_ns() // 1000000
        self.assertEqual(len(ids), 1000000)
        self.assertTrue(all(a < b for a, b in zip(ids, ids[1:])))
        self.assertEqual({i >> 12 & 1023 for i in ids}, {5})
        self.assertGreaterEqual((ids[0] >> 22) + SNOWFLAKE_EPOCH_MS, before_ms - 2)
        self.assertLessEqual((ids[-1] >> 22) + SNOWFLAKE_EPOCH_MS, after_ms + 2)

    def test_one_id_unless_told_otherwise_and_none_when_asked_for_none(self):
        self.assertEqual(len(self.lines("next", "--from", "static:1?lock=no")), 1)
        self.assertEqual(self.done("next", "--from", "static:1?lock=no", "-n", "0"), "")
        self.assertEqual(len(self.lines("next", "--from=static:1", "-n7")), 7)
        self.assertEqual(len(self.lines("next", "--from", "static:1?lock=no", "--count=1000")), 1000)

    def test_the_node_comes_from_the_environment(self):
        args = ["next", "--from", "env:WORKER_ID", "--layout", "snowflake"]
        self.assertEqual(int(self.done(*args, env={"WORKER_ID": "7"})) >> 12 & 1023, 7)
        for bad in ["1024", "-1", "abc"]:
            self.refused(1, *args, env={"WORKER_ID": bad}, says=[bad, "0..1023"])
        self.refused(1, *args, says="WORKER_ID")
        self.assertEqual(int(self.done("next", "--from", "env:WORKER_ID?default=0", "--layout", "snowflake"))
                         >> 12 & 1023, 0)

    def test_a_url_or_a_layout_that_is_none_is_wrong_usage(self):
        self.refused(2, "next", "--from", "static:8192", says="8192")
        self.refused(2, "next", "--from", "static:x", says="x")
        self.refused(2, "next", "--from", "nowhere:7", says="nowhere")
        self.refused(2, "next", "--from", "", "-n", "1")
        self.refused(2, "next", "--from", "static:1?lock=no", "--layout", "42-14-9@2026-01-01", says="65")
        self.refused(2, "next", "--from", "static:1?lock=no", "--layout", "sonyflake", says="sonyflake")
        self.refused(2, "next", "--layout", "nonsense", says="nonsense")

    def test_every_kind_of_source_is_in_the_help(self):
        said = self.refused(2, "next", "--from", "nowhere:", says="there are")
        kinds = re.findall(r"([a-z+]+:)[,)]", said)
        self.assertGreater(len(kinds), 8)
        text = self.done("next", "--help")
        for kind in kinds:
            self.assertIn(kind, text)

    def test_what_the_library_refuses_is_exit_status_1(self):
        self.refused(1, "next", "--from", "standalone:", "--fallback", "never")
        self.refused(1, "next", "--from", "static:1?lock=no", "--layout", "41-10-12@2999-01-01")
        self.refused(1, "next", "--from", "static:1?lock=no", "--layout", "30-10-12@2020-01-01")
        self.refused(1, "next", "--from", "static:1?state=/no/such/place/file", says="/no/such/place")

    def test_every_format_says_the_same_ids(self):
        names = {"hex": "hex", "base32": "base32", "base62": "base62", "base64url": "base64url", "external": "external"}
        for form, name in names.items():
            texts = self.lines("next", "--from", "static:3?lock=no", "-n", "2000", "--format", form)
            self.assertEqual(len(set(texts)), 2000)
            back = self.lines("decode", "--json", "--format", name, stdin="\n".join(texts))
            ids = [int(json.loads(line)["id"]) for line in back]
            self.assertTrue(all(a < b for a, b in zip(ids, ids[1:])), form)
        for line in self.lines("next", "--from", "static:3?lock=no", "-n", "2000", "--format", "json"):
            answer = json.loads(line)
            self.assertEqual(str(answer["id"]), answer["id_str"])

    def test_a_key_file_goes_with_the_external_format(self):
        self.refused(2, "next", "--from", "static:1?lock=no", "--key-file", "x", says="--format external")
        self.refused(1, "next", "--from", "static:1?lock=no", "--format", "external", "--key-file", "/no/such", says="/no/such")

    def test_policies_are_accepted(self):
        for args in (["--backward", "fail"], ["--backward", "wait:100"], ["--backward", "wait"],
                     ["--backward", "wait:20s"], ["--backward", "wait:forever"], ["--backward", "logical"],
                     ["--fallback", "never"], ["--fallback", "fenced"], ["--timeout", "-1"], ["--timeout", "2s"],
                     ["--seq-start", "random"], ["--clock", "coarse"], ["--clock", "precise"],
                     ["--throughput", "256:4096"], ["--throughput", "1"], ["--service", "payments"]):
            ids = [int(line) for line in self.lines("next", "--from", "static:1?lock=no", "-n", "2000", *args)]
            self.assertTrue(all(a < b for a, b in zip(ids, ids[1:])), args)

    def test_a_node_of_its_own_is_never_left_for_fallback(self):
        result = run("next", "--from", "static:1?lock=no", "-n", "2000", "--fallback", "any")
        self.assertEqual(result.returncode, 0)
        parts = [json.loads(line) for line in self.lines("decode", "--json", "--layout", "kazahana",
                                                         stdin=result.stdout)]
        self.assertEqual({(part["node"], part["fallback"]) for part in parts}, {(1, False)})

    def test_a_timeout_of_0_never_waits(self):
        result = run("next", "--from", "static:1?lock=no", "-n", "1000000", "--timeout", "0", "--layout", "41-14-1@2026-01-01")
        self.assertEqual(result.returncode, 1)
        self.assertIn("without waiting", result.stderr)
        self.assertLess(len(result.stdout.splitlines()), 1000000)

    def test_standalone_ids_come_with_a_warning(self):
        result = run("next", "--from", "standalone:")
        self.assertEqual(result.returncode, 0)
        self.assertIn("kazahana: warning: ", result.stderr)
        parts = json.loads(self.done("decode", result.stdout.strip(), "--layout", "kazahana", "--json"))
        self.assertTrue(parts["fallback"])

    def test_a_rate_is_kept(self):
        for count, rate, least in ((11, "20/s", 0.49), (20001, "50000/s", 0.39)):
            begin = time.monotonic()
            self.assertEqual(len(self.lines("next", "--from", "static:1?lock=no", "-n", str(count), "--rate", rate)), count)
            self.assertTrue(least < time.monotonic() - begin < 25)  # a minute for a second would be 24 or 30

    def test_ids_minted_at_a_rate_are_not_held_back(self):
        with subprocess.Popen([PROGRAM, "next", "--from", "static:1?lock=no", "-n", "3", "--rate", "1/h"],
                              stdout=subprocess.PIPE) as process:
            self.assertRegex(process.stdout.readline(), rb"^\d+\n$")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=PATIENCE_S), 128 + signal.SIGTERM)

    def test_signals_end_it_in_good_order(self):
        with tempfile.TemporaryDirectory() as folder:
            source = f"static:4?state={folder}/mark"
            for number in (signal.SIGINT, signal.SIGTERM):
                with subprocess.Popen([PROGRAM, "next", "--from", source, "-n", "1000000000"],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                    process.stdout.readline()
                    process.send_signal(number)
                    rest, errors = process.communicate(timeout=PATIENCE_S)
                    self.assertEqual(process.returncode, 128 + number)
                    self.assertEqual(errors, b"")
                    self.assertTrue(rest.endswith(b"\n"))
            self.assertEqual(len(self.lines("next", "--from", source)), 1)

    def test_a_state_file_in_use_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            source = f"static:4?state={folder}/mark"
            with subprocess.Popen([PROGRAM, "next", "--from", source, "-n", "100", "--rate", "1/s"],
                                  stdout=subprocess.PIPE) as process:
                process.stdout.readline()
                self.refused(1, "next", "--from", source, says="mark")
                process.terminate()
                process.communicate(timeout=PATIENCE_S)

    def test_progress_is_shown_on_a_terminal_when_it_takes_long(self):
        status, shown = on_terminal("next", "--from", "static:1?lock=no", "-n", "400000", stream="stderr")
        self.assertEqual(status, 0)
        self.assertRegex(shown, r"[\d,]+ of 400,000 IDs")
        self.assertEqual(on_terminal("next", "--from", "static:1?lock=no", stream="stderr"), (0, ""))


class Decode(Case):
    def test_discord_s_example(self):
        text = self.done("decode", "175928847299117063", "--layout", "discord")
        self.assertIn("2016-04-30T11:18:25.796Z", text)
        self.assertRegex(text, r"\d+ years ago")
        self.assertRegex(text, r"node +32\n")
        self.assertRegex(text, r"sequence +7\n")
        self.assertIn("0271065ac1020007", text)
        self.assertNotIn("fallback", text)

    def test_without_a_layout_every_preset_has_its_say(self):
        text = self.done("decode", "175928847299117063")
        for preset in [*VECTOR["layouts"], "sonyflake"]:
            self.assertRegex(text, rf"(?m)^  {preset} ")
        self.assertRegex(text, r"discord +2016-04-30T11:18:25.796Z +32 +7\n")
        self.assertRegex(text, r"js53 +does not fit")
        self.assertRegex(text, r"mastodon .* in the future")
        answer = json.loads(self.done("decode", "175928847299117063", "--json"))
        layouts = {entry["layout"]: entry for entry in answer["layouts"]}
        self.assertFalse(layouts["js53"]["fits"])
        self.assertEqual(layouts["discord"]["time"], "2016-04-30T11:18:25.796Z")
        self.assertNotIn("fallback", layouts["discord"])

    def test_the_vectors(self):
        for vector in VECTOR["ids"]:
            answer = json.loads(self.done("decode", vector["id"], "--layout", vector["layout"], "--json"))
            self.assertEqual((answer["unix_ms"], answer["node"], answer["sequence"]),
                             (vector["unix_ms"], vector["node"], vector["seq"]))
            if "fallback" in vector:
                self.assertEqual(answer["fallback"], vector["fallback"])
        for vector in VECTOR["text"]:
            for form in ("hex", "base32", "base62", "base64url"):
                answer = json.loads(self.done("decode", "--json", "--format", form, "--", vector[form]))
                self.assertEqual(answer["id"], vector["id"])
                self.assertEqual(answer[form], vector[form])

    def test_forms_are_found_out(self):
        for text in ["38352658567418872", "0x0088418a2e1a53f8", "0X88418A2E1A53F8", "01221H8Q1MMZR", "o1221h8qlmmzr"]:
            self.assertEqual(json.loads(self.done("decode", text, "--json"))["id"], "38352658567418872", text)
        self.refused(1, "decode", "02pee3ocUrQ", says=["02pee3ocUrQ", "--format"])

    def test_an_id_of_the_upper_half_is_called_fallback(self):
        upper = str((1 << 22) + (8192 << 8))
        self.assertIn("fallback   yes: from the upper half of the nodes", self.done("decode", upper, "--layout", "kazahana"))
        self.assertIn("fallback   no", self.done("decode", str(1 << 22), "--layout", "kazahana"))

    def test_texts_that_begin_with_a_hyphen_are_read(self):
        answer = json.loads(self.done("decode", "--format", "base64url", "-IhBii4aU_g", "--json"))
        self.assertEqual(answer["base64url"], "-IhBii4aU_g")

    def test_bad_texts_are_refused(self):
        names = {"decimal": "dec"}
        for form, texts in VECTOR["text_bad"].items():
            for text in texts:
                self.refused(1, "decode", "--format", names.get(form, form), "--", text)
        for text in ["18446744073709551616", "", "zzz", "0x", "0xg", "1 2", "x" * 10000, "\xff\xfe"]:
            self.refused(1, "decode", text)

    def test_one_bad_id_of_several_prints_nothing(self):
        self.refused(1, "decode", "1", "2", "bad!", says="bad!")
        self.refused(1, "decode", "1", "18446744073709551615", "--layout", "snowflake", says="18446744073709551615")
        self.refused(2, "decode", "1", "--layout", "nonsense", says="nonsense")

    def test_ids_are_read_from_standard_input(self):
        ids = self.done("next", "--from", "static:9?lock=no", "-n", "500", "--layout", "snowflake")
        for args in ([], ["-"]):
            answers = [json.loads(line) for line in
                       self.lines("decode", *args, "--json", "--layout", "snowflake", stdin=ids)]
            self.assertEqual([answer["id"] for answer in answers], ids.split())
            self.assertEqual({answer["node"] for answer in answers}, {9})
        self.assertEqual(len(self.lines("decode", "--json", stdin="1\r\n\n2")), 2)
        self.assertEqual(self.done("decode", stdin=""), "")
        self.refused(1, "decode", stdin="bad!\n", says=["line 1", "bad!"])
        self.refused(1, "decode", stdin="1" * 300 + "\n", says="line 1")
        self.refused(1, "decode", stdin="1" * 300000, says="line 1")
        self.refused(1, "decode", stdin="1\0002\n", says="zero byte")

    def test_an_answer_comes_before_the_next_question(self):
        with subprocess.Popen([PROGRAM, "external"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdin.write(b"1\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), b"PAKqR3WCkr0\n")
            process.stdin.close()
            self.assertEqual(process.wait(timeout=PATIENCE_S), 0)

    def test_uuids_say_node_and_nanosecond(self):
        text = self.done("decode", "0124e053-3580-7000-8e35-500000100001")
        self.assertIn("2009-11-10T23:00:00.000000001Z", text)
        self.assertRegex(text, r"node +1\n")
        for vector in VECTOR["monouuid"]:
            answer = json.loads(self.done("decode", vector["text"].upper(), "--json"))
            self.assertEqual((answer["uuid"], answer["node"], answer["unix_ns"]),
                             (vector["text"], vector["node"], vector["unix_ns"]))
        for bad in VECTOR["monouuid_bad"]:
            self.refused(1, "decode", bad)
            self.refused(1, "decode", "--format", "uuid", bad)


class External(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def key_file(self, *lines):
        path = os.path.join(self.folder, f"keys{len(os.listdir(self.folder))}")
        with open(path, "w", encoding="utf-8") as keys:
            keys.write("".join(line + "\n" for line in lines))
        return path

    def test_the_vectors(self):
        for vector in VECTOR["external_no_secret"]:
            self.assertEqual(self.done("external", vector["id"]), vector["external"] + "\n")
            self.assertEqual(self.done("internal", vector["external"]), vector["id"] + "\n")
        for vector in VECTOR["external_keyed"]:
            keys = self.key_file(f"{vector['key_number']} {vector['algorithm']} {vector['secret_hex']}")
            self.assertEqual(self.done("external", "--key-file", keys, vector["id"]), vector["external"] + "\n")
            self.assertEqual(self.done("internal", "--key-file", keys, vector["external"]), vector["id"] + "\n")

    def test_the_vectors_of_types(self):
        for vector in VECTOR["external_typed"][::3]:
            keys = ["--type", vector["type"]]
            if "algorithm" in vector:
                line = f"{vector['key_number']} {vector['algorithm']} {vector['secret_hex']}"
                keys += ["--key-file", self.key_file(line)]
            self.assertEqual(self.done("external", *keys, vector["id"]), vector["external"] + "\n")
            self.assertEqual(self.done("internal", *keys, vector["external"]), vector["id"] + "\n")
            self.refused(1, "internal", *keys, vector["external"].split("_", 1)[1], says=vector["type"])
        for bad in VECTOR["external_types_bad"]:
            self.refused(2, "external", "--type", bad, "1", says="--type")
            self.refused(2, "internal", "--type", bad, "user_PAKqR3WCkr0", says="--type")
        for bad in VECTOR["external_typed_bad"][::5]:
            keys = ["--type", bad["type"]]
            if "algorithm" in bad:
                keys += ["--key-file", self.key_file(f"{bad['key_number']} {bad['algorithm']} {bad['secret_hex']}")]
            self.refused(1, "internal", *keys, "--", bad["external"], says=bad["type"])

    def test_a_type_is_for_ids_of_a_layout(self):
        keys = ["--type", "post", "--key-file", self.key_file("0 speck " + "a5" * 32)]
        tsid = self.done("next", "--from", "static:5?lock=no", "--layout", "tsid")
        text = self.done("external", *keys, stdin=tsid).strip()
        self.assertEqual(self.done("internal", *keys, "--layout", "tsid", text), tsid)
        self.refused(1, "internal", *keys, text, says="layout 41-14-8")
        self.refused(2, "internal", "--layout", "tsid", text, says="--type")
        self.refused(2, "internal", *keys, "--layout", "nonsense", text, says="nonsense")

    def test_a_million_go_there_and_back(self):
        ids = self.done("next", "-n", "1000000", "--from", "static:5?lock=no", "--layout", "snowflake")
        for keys in ([], ["--key-file", self.key_file("2 xtea " + "5a" * 16)],
                     ["--key-file", self.key_file("3 speck " + "a5" * 32)]):
            texts = self.done("external", *keys, stdin=ids)
            self.assertEqual(len(set(texts.split())), 1000000)
            self.assertEqual(self.done("internal", *keys, stdin=texts), ids)

    def test_texts_of_an_old_key_are_read_after_a_new_one_came(self):
        old = self.key_file("1 xtea " + "11" * 16)
        both = self.key_file("# new first", "2 speck " + "22" * 16, "", "1 xtea " + "11" * 16)
        text = self.done("external", "--key-file", old, "12345").strip()
        self.assertEqual(self.done("internal", "--key-file", both, text), "12345\n")
        newer = self.done("external", "--key-file", both, "12345").strip()
        self.assertNotEqual(text, newer)
        self.assertEqual(self.done("internal", "--key-file", both, newer), "12345\n")
        self.refused(1, "internal", "--key-file", old, newer, says="key")

    def test_bad_texts_are_refused(self):
        for bad in ["PAKqR3WCkr", "PAKqR3WCkr00", "PAKqR3WCkr!", "PAKqR3WCkr=", "", "PAKqR3WC r0"]:
            self.refused(1, "internal", "--", bad)
            self.refused(1, "internal", "PAKqR3WCkr0", "--", bad)
        self.refused(1, "internal", "PAKqR3WCkr1", says="key")
        self.refused(1, "external", "1", "x", says=["x", "kazahana decode --format"])
        self.refused(1, "external", "0124e053-3580-7000-8e35-500000100001", says="UUID")

    def test_bad_key_files_are_refused(self):
        for line in ["4 xtea " + "00" * 16, "0 des " + "00" * 16, "0 xtea 00", "0 xtea " + "zz" * 16, "nonsense"]:
            self.refused(1, "external", "--key-file", self.key_file(line), "1", says="1")
        self.refused(1, "external", "--key-file", self.key_file(), "1")
        self.refused(1, "external", "--key-file", "/no/such/file", "1", says="/no/such/file")
        self.refused(1, "external", "--key-file", self.folder, "1", says=self.folder)

    def test_texts_that_begin_with_a_hyphen_need_nothing_special(self):
        keys = ["--key-file", self.key_file("0 speck " + "a5" * 32)]
        ids = self.done("next", "-n", "20000", "--from", "static:5?lock=no").split()
        texts = self.done("external", *keys, stdin="\n".join(ids)).split()
        pairs = [(i, text) for i, text in zip(ids, texts) if text.startswith("-")]
        self.assertTrue(pairs)
        for i, text in pairs[:20]:
            self.assertEqual(self.done("internal", *keys, text), i + "\n")


class Range(Case):
    def test_a_piped_range_is_two_lines(self):
        since, until = self.lines("range", "--since", "2016-04-30T11:18:25.796Z", "--until", "2016-04-30T11:18:25.796Z",
                                  "--layout", "discord")
        self.assertLessEqual(int(since), 175928847299117063)
        self.assertEqual(int(since) & (1 << 22) - 1, 0)
        self.assertEqual(int(until), int(since) + (1 << 22) - 1)

    def test_on_a_terminal_it_is_a_clause_with_labels(self):
        status, shown = on_terminal("range", "--since", "2026-01-01", "--until", "2026-01-01")
        self.assertEqual(status, 0)
        self.assertIn("WHERE id BETWEEN 0 AND 4194303", shown)
        self.assertIn("included", shown)
        self.assertIn("negative", on_terminal("range", "--since", "2100-01-01", "--until", "2100-01-02", "--layout",
                                              "tsid")[1])

    def test_new_ids_lie_in_the_last_minute(self):
        since, until = self.lines("range", "--since", "-1min", "--until", "+1min")
        self.assertTrue(int(since) < int(self.done("next", "--from", "static:1?lock=no")) < int(until))
        since, until = self.lines("range", "--since", "-7d", "--until", "now")
        self.assertEqual((int(until) >> 22) - (int(since) >> 22), 7 * 86400000)

    def test_it_is_an_object_in_json(self):
        answer = json.loads(self.done("range", "--since", "1767225600000", "--until", "2026-01-01T09:00:00+09:00",
                                      "--json"))
        self.assertEqual(answer, {"layout": "kazahana", "since": "2026-01-01T00:00:00.000Z",
                                  "until": "2026-01-01T00:00:00.000Z", "since_id": "0", "until_id": "4194303"})

    def test_times_that_make_no_sense_are_refused(self):
        self.refused(2, "range", "--since", "now", says="--until")
        self.refused(2, "range", "--until", "now", says="--since")
        self.refused(1, "range", "--since", "yesterday", "--until", "now", says="yesterday")
        self.refused(1, "range", "--since", "now", "--until", "2026-13-01", says="2026-13-01")
        self.refused(1, "range", "--since", "now", "--until", "-1h", says="-1h")
        self.refused(1, "range", "--since", "2020-01-01", "--until", "now")
        self.refused(1, "range", "--since", "now", "--until", "2200-01-01")
        self.refused(1, "range", "--since", "-9999999999999d", "--until", "now")


class Layout(Case):
    def test_the_default_layout_says_what_it_holds_and_when_it_runs_out(self):
        text = self.done("layout", "kazahana")
        for fact in ["8,192 leasable nodes", "256 IDs per ms and node", "2095-09-07"]:
            self.assertIn(fact, text)
        answer = json.loads(self.done("layout", "kazahana", "--json"))
        self.assertEqual((answer["leasable_nodes"], answer["ids_per_step"], answer["last"][:10]),
                         (8192, 256, "2095-09-07"))

    def test_presets_are_listed(self):
        text = self.done("layout")
        names = [json.loads(line)["name"] for line in self.lines("layout", "--json")]
        self.assertEqual(set(names), {*VECTOR["layouts"], "sonyflake"})
        for name in names:
            self.assertRegex(text, rf"(?m)^{name} ")
            self.done("layout", name)

    def test_65_bits_are_refused_and_64_turn_negative(self):
        self.refused(2, "layout", "42-14-9@2026-01-01", says="65")
        self.assertRegex(self.done("layout", "41-14-9@2026-01-01"), r"warning: from 2060-11-03 on .* negative")
        self.assertIn("2060-11-03", json.loads(self.done("layout", "41-14-9@2026-01-01", "--json"))["negative_from"])
        self.assertNotIn("negative", self.done("layout", "41-14-8@2026-01-01"))

    def test_what_cannot_be_minted_is_warned_of(self):
        self.assertIn("warning: it ran out on", self.done("layout", "30-10-12@2020-01-01"))
        self.assertIn("ran out", self.done("layout", "30-10-12@2020-01-01"))
        self.assertIn("warning: its epoch is in the future", self.done("layout", "41-10-12@2999-01-01"))
        self.assertIn("not minted", self.done("layout", "sonyflake"))

    def test_javascript_is_thought_of(self):
        self.assertIn("JavaScript", self.done("layout", "snowflake"))
        self.assertNotIn("JavaScript", self.done("layout", "js53"))

    def test_nonsense_is_refused(self):
        for bad in ["", "nonsense", "41-10", "41-10-12", "41-10-12@", "41-10-12@never", "0-0-0@2026-01-01",
                    "-1-10-12@2026-01-01", "41-10-12@2026-01-01x", "9" * 500]:
            self.refused(2, "layout", "--", bad)
        self.refused(2, "layout", "tsid", "js53", says="js53")

    def test_whether_its_ids_sort_after_those_that_exist(self):
        for layout in ("snowflake", "twitter", "discord", "41-6-16@2015-01-01"):
            old = self.done("next", "--from", "static:1?lock=no", "--layout", layout).strip()
            answer = self.done("layout", "kazahana", "--above", old)
            better = re.search(rf"warning: IDs made now are not above {old}: .* such as (41-14-8@[0-9-]+)\n", answer)
            self.assertTrue(better, answer)
            self.assertLess(int(self.done("next", "--from", "static:1?lock=no")), int(old))
            self.assertGreater(int(self.done("next", "--from", "static:1?lock=no", "--layout", better.group(1))), int(old))
            self.assertIn(f"ok: IDs made from now on sort after {old}",
                          self.done("layout", better.group(1), "--above", old))
        self.assertIn("ok: ", json.loads(self.done("layout", "kazahana", "--above", "123456", "--json"))["notes"][-1])
        for old in (1 << 63) - 1, (1 << 64) - 1:
            self.assertIn("with no epoch since 1970", self.done("layout", "kazahana", "--above", str(old)))
        self.refused(2, "layout", "--above", "1", says="one layout")
        for bad in ("x", "", "-1", str(1 << 64)):
            self.refused(2, "layout", "tsid", "--above", bad, says="--above")


class Monotonic(Case):
    def test_nanoseconds_increase(self):
        before = time.time_ns()
        values = [int(line) for line in self.lines("mono", "-n", "100000")]
        self.assertEqual(len(values), 100000)
        self.assertTrue(all(a < b for a, b in zip(values, values[1:])))
        self.assertGreaterEqual(values[0], before)
        self.assertEqual(self.done("mono", "-n", "0"), "")

    def test_nanoseconds_go_on_above_the_last(self):
        self.assertEqual(self.lines("mono", "-n", "2", "--last", "4000000000000000000"),
                         ["4000000000000000001", "4000000000000000002"])
        self.refused(2, "mono", "--last", "-1", says="-1")
        self.refused(2, "mono", "--last", "9223372036854775808", says="9223372036854775808")
        self.refused(1, "mono", "--last", "9223372036854775807")

    def test_uuids_increase_and_carry_their_node(self):
        texts = self.lines("uuid", "-n", "10000", "--node", "16777215")
        self.assertEqual(texts, sorted(set(texts)))
        self.assertEqual(len(texts), 10000)
        self.assertEqual(json.loads(self.done("decode", "--json", texts[-1]))["node"], 16777215)

    def test_uuids_go_on_above_the_last(self):
        last = "0124e053-3580-7000-8e35-500000100001"
        self.assertGreater(self.done("uuid", "--node", "1", "--last", last).strip(), last)
        future = "04000000-0000-7000-8e35-500000100001"
        self.assertEqual(self.done("uuid", "--node", "1", "--last", future).strip()[:-1], future[:-1])

    def test_bad_nodes_and_last_uuids_are_refused(self):
        self.refused(2, "uuid", says="--node")
        self.refused(2, "uuid", "--node", "x", says="x")
        self.refused(1, "uuid", "--node", "0", says="0")
        self.refused(1, "uuid", "--node", "16777216", says="16777216")
        self.refused(1, "uuid", "--node", "2", "--last", "0124e053-3580-7000-8e35-500000100001", says="1")
        for bad in VECTOR["monouuid_bad"]:
            self.refused(1, "uuid", "--node", "1", "--last", bad)


class Doctor(Case):
    def test_every_check_is_a_line_with_its_result(self):
        result = run("doctor", "--from", "static:7?lock=no")
        self.assertEqual(result.returncode, 0, result.stdout)
        for line in result.stdout.splitlines():
            self.assertRegex(line, r"^(ok  |warn|fail|    ) ")
        self.assertIn("nothing checks that nobody else uses this number", result.stdout)
        self.assertRegex(result.stdout, r"(?m)^ok +layout .*2095-09-07")

    def test_json_is_one_object_a_line(self):
        result = run("doctor", "--from", "static:7?lock=no", "--json")
        checks = {entry["check"]: entry for entry in map(json.loads, result.stdout.splitlines())}
        for name in ["time", "steps", "sync", "clock", "timer", "source", "promise", "layout"]:
            self.assertIn(checks[name]["result"], ("ok", "warn"), name)

    def test_a_source_that_does_not_open_fails(self):
        result = run("doctor", "--from", 'static:"99999"\t')
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"(?m)^fail +source ")
        for line in run("doctor", "--from", 'static:"99999"\t', "--json").stdout.splitlines():
            json.loads(line)

    def test_layouts_near_their_end_are_warned_of(self):
        result = run("doctor", "--from", "static:7?lock=no", "--layout", "30-10-12@2020-01-01")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"(?m)^fail +layout .*ran out on 2020-01-13")
        text = run("doctor", "--from", "static:7?lock=no", "--layout", "41-14-9@2026-01-01").stdout
        self.assertRegex(text, r"(?m)^warn +sign .*2060-11-03")
        self.refused(2, "doctor", "--layout", "nonsense", says="nonsense")


class LeaseCase(Case):
    """Every test has an embedded default of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kazahana-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.env = {"XDG_STATE_HOME": self.folder}

    def redis(self, *settings):
        if Redis.missing():
            self.skipTest(Redis.missing())
        server = Redis(tempfile.mkdtemp(dir=self.folder), *settings)
        self.addCleanup(server.kill)
        return server.start()

    def start(self, *args, stdout=subprocess.PIPE):
        process = subprocess.Popen([PROGRAM, *args], env={**os.environ, **self.env}, stdout=stdout,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        if process.stdout:
            self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, PATIENCE_S)
        self.addCleanup(process.kill)
        return process

    def held(self, *args):
        return [json.loads(line) for line in self.lines("leases", "--json", *args, env=self.env)]

    def wait_until(self, true):
        end = time.monotonic() + PATIENCE_S
        while not true():
            self.assertLess(time.monotonic(), end, "waited too long")
            time.sleep(0.01)


class Leases(LeaseCase):
    def check_endings(self, *source):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start("next", "-n", "1000000000", *source)
            process.stdout.readline()
            self.assertEqual([lease["meta"]["pid"] for lease in self.held(*source)], [str(process.pid)])
            process.send_signal(number)
            rest = process.stdout.read()
            self.assertEqual((process.wait(timeout=PATIENCE_S), process.stderr.read()), (128 + number, b""))
            self.assertTrue(rest.endswith(b"\n"))
            self.assertEqual(self.held(*source), [])
        process = self.start("next", "-n", "1000000000", *source)
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual((process.wait(timeout=PATIENCE_S), process.stderr.read()), (1, b""))
        self.assertEqual(self.held(*source), [])

    def test_a_signal_or_a_closed_pipe_gives_the_leases_back(self):
        self.check_endings()

    def test_a_signal_or_a_closed_pipe_gives_the_leases_back_to_redis(self):
        self.check_endings("--from", self.redis().url)

    def test_a_signal_while_it_waits_at_a_rate_gives_the_lease_back(self):
        process = self.start("next", "-n", "3", "--rate", "1/h")
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=PATIENCE_S), 128 + signal.SIGTERM)
        self.assertEqual(self.held(), [])

    def test_a_reader_that_does_not_read_cannot_keep_the_leases(self):
        process = self.start("next", "-n", "1000000000")
        self.wait_until(lambda: unread_bytes(process.stdout) > 32768)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=PATIENCE_S), 128 + signal.SIGTERM)
        self.assertEqual(self.held(), [])

    def test_services_in_one_store_have_layouts_of_their_own(self):
        for service, layout in (("orders", "snowflake"), ("web", "js53")):
            args = ["next", "--service", service, "-n", "1000"]
            first = self.lines(*args, "--layout", layout, env=self.env)
            then = self.lines(*args, env=self.env)
            for ids in (first, then):
                parts = [json.loads(line) for line in self.lines("decode", "--layout", layout, "--json",
                                                                 stdin="\n".join(ids))]
                for part in (parts[0], parts[-1]):
                    self.assertLess(abs(part["unix_ms"] - time.time() * 1000), 60000)
            self.assertLess(int(first[-1]), int(then[0]))
        self.assertLess(int(then[-1]), 1 << 53)
        said = self.refused(1, "next", "--service", "orders", "--layout", "kazahana", env=self.env,
                            says=["orders", "41-10-12@2024-01-01", "41-14-8@2026-01-01"])
        self.assertEqual(said.count("\n"), 1)
        self.done("next", "--service", "orders", "--layout", "41-10-12@2024-01-01", env=self.env)
        self.refused(2, "next", "--service", "no blanks", env=self.env, says="no blanks")

    def test_throughput_grows_with_the_load(self):
        # 16 IDs a millisecond and lease: so few that a slow machine too can use up sixteen of them.
        ids = [int(line) for line in self.lines("next", "-n", "200000", "--throughput", "16:256", "--layout",
                                                "41-14-4@2026-01-01", env=self.env)]
        self.assertTrue(all(a < b for a, b in zip(ids, ids[1:])))
        counts = {}
        for i in ids:
            counts[i >> 18] = counts.get(i >> 18, 0) + 1
        self.assertGreater(max(counts.values()), 128)
        self.assertEqual(len({i >> 4 & 0x3fff for i in ids}), 16)
        self.assertEqual(self.held(), [])

    def test_throughput_can_be_had_from_the_start(self):
        process = self.start("next", "-n", "1000", "--rate", "10/s", "--throughput", "1000")
        process.stdout.readline()
        self.assertEqual(len(self.held()), 4)
        process.terminate()
        self.assertEqual(process.wait(timeout=PATIENCE_S), 128 + signal.SIGTERM)

    def test_when_every_node_is_out_it_says_so_and_doctor_too(self):
        args = ["--service", "small", "--layout", "js53"]
        process = self.start("next", "-n", "1000", "--rate", "10/s", "--throughput", "2048", *args)
        process.stdout.readline()
        self.assertEqual(len(self.held("--service", "small")), 8)
        self.refused(1, "next", *args, env=self.env, says="no machine ID free")
        result = run("doctor", "--service", "small", env=self.env)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"(?m)^fail +nodes +service small: 0 of 8 nodes free, 8 leases out\n +-> ")
        process.terminate()
        self.assertEqual(process.wait(timeout=PATIENCE_S), 128 + signal.SIGTERM)
        self.done("next", *args, env=self.env)

    def test_a_memory_table_serves_one_process(self):
        self.assertEqual(len(set(self.lines("next", "--from", "memory:", "-n", "5000", env=self.env))), 5000)
        self.assertEqual(self.done("leases", "--from", "memory:", env=self.env), "no leases\n")


class Unreachable(LeaseCase):
    def setUp(self):
        super().setUp()
        self.address = f"127.0.0.1:{free_port()}"
        self.url = f"redis://user:geheim@{self.address}/0"

    def test_a_closed_port_fails_within_the_timeout_and_names_the_address_only(self):
        begin = time.monotonic()
        said = self.refused(1, "next", "--from", self.url, "--timeout", "1s", env=self.env, says=self.address)
        self.assertLess(time.monotonic() - begin, 9)  # the default would be 10
        self.assertNotIn("geheim", said)
        self.assertNotIn("geheim", self.refused(1, "leases", "--from", self.url, env=self.env, says=self.address))
        for json_wanted in ([], ["--json"]):
            result = run("doctor", "--from", self.url, *json_wanted, env=self.env)
            self.assertEqual(result.returncode, 1)
            self.assertIn(self.address, result.stdout)
            self.assertNotIn("geheim", result.stdout + result.stderr)

    def test_logins_written_wrong_are_not_shown_either(self):
        for url in (f"redis:geheim@{self.address}", f"redis://:ge?heim@{self.address}", f"redis://geheim@{self.address}",
                    f"redis://:geheim@x@{self.address}/zero", f"nowhere://:geheim@{self.address}?password=geheim"):
            for args in (["next", "--timeout", "1s"], ["leases"], ["doctor"], ["doctor", "--json"]):
                result = run(*args, "--from", url, env=self.env)
                self.assertEqual(result.returncode, 1 if args[0] == "doctor" else 2, (args, url))
                self.assertNotIn("heim", result.stdout + result.stderr, (args, url))

    def test_fallback_any_mints_unfenced_ids_with_a_warning(self):
        result = run("next", "-n", "100", "--from", self.url, "--fallback", "any", "--timeout", "1s", env=self.env)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("kazahana: warning: unfenced", result.stderr)
        self.assertNotIn("geheim", result.stderr)
        parts = [json.loads(line) for line in self.lines("decode", "--layout", "kazahana", "--json",
                                                         stdin=result.stdout)]
        self.assertEqual((len(parts), {part["fallback"] for part in parts}), (100, {True}))

    def test_fallback_never_and_fenced_do_not(self):
        for fallback in ("never", "fenced"):
            self.refused(1, "next", "--from", self.url, "--fallback", fallback, "--timeout", "1s", env=self.env,
                         says=self.address)

    def test_a_failure_that_goes_on_is_told_once(self):
        said = self.refused(1, "next", "--from", self.url, "--timeout", "2s", env=self.env)
        self.assertLessEqual(len(said.splitlines()), 2)

    def test_a_signal_ends_it_while_nobody_answers(self):
        process = self.start("next", "--from", self.url, "--timeout", "forever")
        self.assertIn(b"nothing is held yet", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=PATIENCE_S), 128 + signal.SIGINT)


class LeaseTable(LeaseCase):
    def holding(self, *args):
        process = self.start("next", "-n", "1000", "--rate", "1/s", *args)
        process.stdout.readline()
        return process

    def test_leases_says_who_holds_what_until_when(self):
        self.assertEqual(self.done("leases", env=self.env), "no leases\n")
        self.assertEqual(self.done("leases", "--json", env=self.env), "")
        web, other = self.holding("--service", "web"), self.holding()
        header, *rows = self.lines("leases", env=self.env)
        self.assertEqual(header.split(), ["SERVICE", "NODE", "HOLDER", "SINCE", "UNTIL", "LEFT", "TWIN", "UNTIL"])
        stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
        for row, process, service in zip(rows, (other, web), ("default", "web")):
            self.assertRegex(row, rf"^{service} +\d+ +host=\S+ pid={process.pid} +{stamp} +{stamp} +9m\d\ds +{stamp}$")
        self.assertEqual(len(rows), 2)
        self.assertEqual(len(self.lines("leases", "--service", "web", env=self.env)), 2)
        self.assertEqual(self.done("leases", "--service", "none", env=self.env), "no leases\n")

    def test_reserve_keeps_nodes_for_others(self):
        self.done("reserve", "0-3,7", "--note", "the old service", env=self.env)
        self.done("reserve", "9", "--until", "+1h", env=self.env)
        lines = self.lines("reserve", "--list", env=self.env)
        self.assertEqual(lines[:2], ["default  0-3  for ever  the old service", "default  7  for ever  the old service"])
        self.assertRegex(lines[2], r"^default  9  20\d\d-\S+Z$")
        self.holding()
        rows = [json.loads(line) for line in self.lines("leases", "--json", env=self.env)]
        self.assertEqual([(row["id"], row.get("kind"), row.get("nodes")) for row in rows],
                         [(0, "reserved", 4), (4, None, None), (7, "reserved", 1), (9, "reserved", 1)])
        self.assertIn("the old service", self.done("leases", env=self.env))
        self.refused(1, "reserve", "4-6", says="node 4 of service default is leased for another", env=self.env)
        self.refused(1, "reserve", "8191-8192", says="service default has 0-8191 to lease", env=self.env)
        self.done("reserve", "--free", "1-9", env=self.env)
        self.assertEqual(self.lines("reserve", "--list", env=self.env), ["default  0  for ever  the old service"])
        for wrong in ("3-1",), ("x",), ("1,",), (), ("1", "2"), ("--free", "1", "--note", "x"), ("--list", "1"):
            self.refused(2, "reserve", *wrong, env=self.env)

    def test_json_has_no_secret_and_its_times_can_be_reckoned_with(self):
        process = self.holding()
        lease, = self.held()
        self.assertEqual(set(lease), {"service", "id", "bitId", "bitSeq", "created", "expired", "fallbackCreated",
                                      "fallbackExpired", "left_ms", "meta"})
        self.assertEqual((lease["service"], lease["meta"]["pid"]), ("default", str(process.pid)))
        self.assertEqual((lease["bitId"], lease["bitSeq"]), (14, 8))
        self.assertTrue(500000 < lease["left_ms"] <= 600000)
        self.assertEqual(lease["expired"] - lease["created"], 600000)
        self.assertEqual(lease["fallbackExpired"] - lease["fallbackCreated"], 2400000)
        self.assertEqual(self.held("--service", "none"), [])

    def test_a_source_without_a_table_says_so(self):
        for url in ("static:7?lock=no", "standalone:", "env:HOME?default=0"):
            self.refused(1, "leases", "--from", url, env={**self.env, "HOME": "1"}, says="has no table of leases")
        self.refused(2, "leases", "--from", "nowhere:", says="nowhere")

    def test_looking_makes_no_file(self):
        path = os.path.join(self.folder, "none.db")
        self.refused(1, "leases", "--from", f"sqlite:{path}", says=[path, "not there"])
        result = run("doctor", "--from", f"sqlite:{path}?lease=1s")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"(?m)^fail +source .*not there")
        self.assertEqual(os.listdir(self.folder), [])

        self.refused(2, "leases", "extra", says="extra")

    def test_a_holder_cannot_command_the_terminal_or_break_the_json(self):
        server = self.redis()
        url = f"redis://127.0.0.1:{server.port}/0"
        self.holding("--from", url)
        lease, = self.held("--from", url)
        holders = {'{"host":"\u009b1m"}': {"host": "\u009b1m"},
                   '{"host":"\033[31m"}': '{"host":"\033[31m"}', # JSON has no bare control characters
                   '{"a":"\\u001b\\"x\\u00e9","b":""}': {"a": '\033"x\u00e9', "b": ""},
                   "{}": {}, "not json": "not json", '{"a":1}': '{"a":1}', '{"a":"b"} x': '{"a":"b"} x',
                   '{"a":"b': '{"a":"b', '{"a":"\\': '{"a":"\\', '{"a":"\\u12"}': '{"a":"\\u12"}', "{": "{",
                   '{"a":"b",}': '{"a":"b",}'}
        for holder, meant in holders.items():
            server.ask("HSET", f"lease:{lease['id']}", "holder", holder)
            self.assertEqual(self.held("--from", url)[0]["meta"], meant)
            text = self.done("leases", "--from", url, env=self.env)
            self.assertNotRegex(text, "[\033\u009b]")
            self.assertEqual(len(text.splitlines()), 2)

    def test_watching_through_a_pipe_prints_a_picture_a_second(self):
        begin = time.monotonic()
        process = self.start("leases", "--watch")
        self.assertEqual([process.stdout.readline() for _ in range(3)], [b"no leases\n", b"\n", b"no leases\n"])
        self.assertTrue(0.5 < time.monotonic() - begin < 25)
        process.send_signal(signal.SIGINT)
        self.assertEqual((process.wait(timeout=PATIENCE_S), process.stderr.read()), (128 + signal.SIGINT, b""))

    def test_watching_ends_when_the_reader_goes_away(self):
        process = self.start("leases", "--watch")
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=PATIENCE_S), 1)

    def test_watching_on_a_terminal_draws_over_and_puts_the_screen_back(self):
        parent, child = pty.openpty()
        self.addCleanup(os.close, parent)
        self.env["TERM"] = "xterm"
        process = self.start("leases", "--watch", stdout=child)
        os.close(child)
        shown = b""
        while shown.count(b"no leases") < 2:
            shown += os.read(parent, 4096)
        process.send_signal(signal.SIGINT)
        try:
            while piece := os.read(parent, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        self.assertEqual(process.wait(timeout=PATIENCE_S), 128 + signal.SIGINT)
        self.assertTrue(shown.startswith(b"\033[?1049h"))
        self.assertTrue(shown.endswith(b"\033[?1049l"))
        self.assertEqual(shown.count(b"\033[H"), shown.count(b"no leases"))

    def on_terminal(self, *args, enough, rows=24, columns=80, **env):
        """What a terminal of this size gets, until `enough` says so of it; without colours."""
        parent, child = pty.openpty()
        self.addCleanup(os.close, parent)
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.env.update({"TERM": "xterm", "LC_ALL": "C.UTF-8", **env})
        process = self.start("leases", *args, stdout=child)
        os.close(child)
        shown = b""
        try:
            while not enough(shown.decode(errors="ignore")):
                shown += os.read(parent, 4096)
            process.send_signal(signal.SIGINT)
            while piece := os.read(parent, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        return re.sub("\033\\[[0-9]*m", "", shown.decode()).replace("\r", "")

    def test_on_a_terminal_leases_are_bars_that_fit(self):
        self.holding("--service", "a"), self.holding("--service", "b")
        for columns in (80, 60, 200):
            lines = self.on_terminal(columns=columns, enough=lambda _: False).splitlines()
            self.assertLessEqual(max(map(len, lines)), columns)
            self.assertRegex(lines[0], r"^NODE +HOLDER +LEFT +now +\d\d:\d\d:\d\d$")
            self.assertEqual((lines[1], lines[3], len(lines)), ("service a", "service b", 5))
            for line in (lines[2], lines[4]):
                # Just taken: hardly anything used, one lease of time left, three more in the twin, up to the last column.
                bar = re.fullmatch(r" +0  \S+ \d+ +(?:[5-9]m\d\ds|10m00s)  ( *)(█*)│(▒+)(░+) ?", line)
                self.assertTrue(bar, line)
                fifth = len(line) - line.index("│") - 1
                self.assertAlmostEqual(len(bar[3]) / fifth, 0.25, delta=0.15)
        lines = self.on_terminal(enough=lambda _: False, LC_ALL="C").splitlines()
        self.assertRegex(lines[2], r"  +#*[|]=+[.]+ ?$")

    def test_on_a_terminal_a_long_holder_is_cut_and_the_rest_fits(self):
        server = self.redis()
        url = f"redis://127.0.0.1:{server.port}/0"
        self.holding("--from", url)
        lease, = self.held("--from", url)
        for holder in ('{"host":"' + "\u00e9" * 90 + '","pid":"7"}', "x" * 200, ""):
            server.ask("HSET", f"lease:{lease['id']}", "holder", holder)
            lines = self.on_terminal("--from", url, enough=lambda _: False).splitlines()
            self.assertEqual((len(lines), max(map(len, lines)) <= 80), (2, True), lines)
            self.assertIn("│", lines[1])

    def test_watching_draws_no_more_than_the_screen_holds(self):
        for _ in range(12):
            self.holding()
        text = self.on_terminal("--watch", rows=10, enough=lambda text: text.count("\033[H") > 2)
        for frame in text.split("\033[H")[1:-1]:
            lines = frame.replace("\033[K", "").replace("\033[J", "").splitlines()
            self.assertLess(len(lines), 10)
            self.assertLess(max(map(len, lines)), 80)
            more = re.fullmatch(r"and (\d+) more", lines[-1])
            self.assertEqual(int(more[1]) + sum("│" in line for line in lines), 12)

    def test_watching_survives_a_store_that_goes_away(self):
        server = self.redis()
        process = self.start("leases", "--watch", "--from", f"redis://127.0.0.1:{server.port}/0")
        self.assertEqual(process.stdout.readline(), b"no leases\n")
        server.kill()
        self.assertIn(b"kazahana: warning: ", process.stderr.readline())
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=PATIENCE_S), 128 + signal.SIGTERM)


class DoctorOfTables(LeaseCase):
    CHECKS = ["time", "steps", "sync", "clock", "timer", "reachable", "clocks", "durable", "nodes", "lease", "source",
              "release", "layout"]

    def examine(self, *args):
        result = run("doctor", *args, "--json", env=self.env)
        return result.returncode, {entry["check"]: entry for entry in map(json.loads, result.stdout.splitlines())}

    def test_the_embedded_default_is_examined_when_no_source_is_given(self):
        result = run("doctor", env=self.env)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        for text in (r"ok +reachable +answers in [\d.]+ ms", r"ok +clocks ", r"ok +durable ",
                     r"ok +nodes +service default: 8,192 of 8,192 nodes free, 0 leases out", r"ok +lease .* 10m00s",
                     r"ok +source +the embedded default opened and minted \d+", r"ok +release ",
                     r"ok +layout +kazahana .*2095-09-07"):
            self.assertRegex(result.stdout, rf"(?m)^{text}")
        self.assertEqual(self.held(), [])

    def test_json_has_every_check(self):
        status, checks = self.examine()
        self.assertEqual((status, list(checks)), (0, self.CHECKS))
        for check in checks.values():
            self.assertIn(check["result"], ("ok", "warn"), check)

    def test_a_service_s_own_layout_and_lease_are_told(self):
        url = f"sqlite:{self.folder}/leases.db?lease=90s"
        self.done("next", "--from", url, "--service", "orders", "--layout", "41-10-9@2025-01-01", env=self.env)
        status, checks = self.examine("--from", url, "--service", "orders")
        self.assertEqual(status, 0)
        self.assertIn("41-10-9@2025-01-01", checks["layout"]["detail"])
        self.assertIn("2094-09-07", checks["layout"]["detail"])
        self.assertIn("of 512 nodes free", checks["nodes"]["detail"])
        self.assertIn("1m30s", checks["lease"]["detail"])
        status, checks = self.examine("--from", url, "--service", "orders", "--layout", "tsid")
        self.assertEqual((status, checks["source"]["result"]), (1, "fail"))
        self.assertIn("41-10-9@2025-01-01", checks["source"]["detail"])

    def test_few_free_nodes_are_warned_of(self):
        args = ["--service", "small", "--layout", "41-5-8@2026-01-01"]
        process = self.start("next", "-n", "1000", "--rate", "10/s", "--throughput", str(15 * 256), *args)
        process.stdout.readline()
        status, checks = self.examine("--service", "small")
        self.assertEqual((status, checks["nodes"]["result"]), (0, "warn"))
        self.assertIn("1 of 16 nodes free, 15 leases out", checks["nodes"]["detail"])
        self.assertIn("kazahana leases", checks["nodes"]["advice"])

    def test_a_redis_that_forgets_is_warned_of_with_the_way_out(self):
        server = self.redis("--appendonly", "no")
        status, checks = self.examine("--from", f"redis://127.0.0.1:{server.port}/0")
        self.assertEqual((status, checks["durable"]["result"]), (0, "warn"))
        self.assertIn("appendonly is no", checks["durable"]["detail"])
        self.assertIn("appendfsync always", checks["durable"]["advice"])
        self.assertEqual(checks["release"]["result"], "ok")

    def test_a_redis_that_keeps_what_it_granted_is_in_order(self):
        server = self.redis("--appendonly", "yes", "--appendfsync", "always", "--requirepass", "geheim")
        status, checks = self.examine("--from", f"redis://:geheim@127.0.0.1:{server.port}/0")
        self.assertEqual((status, list(checks)), (0, self.CHECKS))
        self.assertEqual(checks["durable"]["result"], "ok")
        self.assertIn(f"redis://127.0.0.1:{server.port}/0 opened", checks["source"]["detail"])
        status, checks = self.examine("--from", f"redis://:falsch@127.0.0.1:{server.port}/0")
        self.assertEqual((status, checks["source"]["result"]), (1, "fail"))
        self.assertIn("password", checks["source"]["detail"])
        self.assertNotIn("falsch", json.dumps(checks))

    def test_a_damaged_file_fails(self):
        path = os.path.join(self.folder, "leases.db")
        with open(path, "wb") as file:
            file.write(b"nonsense" * 1000)
        status, checks = self.examine("--from", f"sqlite:{path}")
        self.assertEqual((status, checks["source"]["result"]), (1, "fail"))
        self.assertIn(path, checks["source"]["detail"])

    def test_fixed_nodes_and_standalone_are_still_examined(self):
        self.assertEqual(self.examine("--from", "static:7")[1]["promise"]["result"], "warn")
        source = f"static:7?state={self.folder}/mark"
        for _ in range(2):
            status, checks = self.examine("--from", source)
            self.assertEqual((status, checks["source"]["result"]), (0, "ok"))
        self.env["WORKER_ID"] = "3"
        self.assertEqual(self.examine("--from", "env:WORKER_ID")[1]["source"]["result"], "ok")
        self.assertEqual(self.examine("--from", "standalone:")[1]["promise"]["result"], "warn")
        self.assertEqual(self.examine("--from", "memory:")[1]["durable"]["result"], "warn")


class Bench(Case):
    def test_figures_come_with_the_layout_s_limit_and_without_twins(self):
        text = self.done("bench", "--quick", "--layout", "snowflake")
        self.assertIn("244", text)
        self.assertIn("no twins", text)

    def test_json_is_one_object_a_line(self):
        entries = [json.loads(line) for line in self.lines("bench", "--quick", "--json")]
        names = [entry["what"] for entry in entries]
        self.assertEqual(names[0], "clock_gettime")
        self.assertIn("kz_next", names)
        for entry in entries:
            self.assertGreater(entry["ns"], 0)
            self.assertEqual((entry["twins"], entry["wrong"]), (0, 0))

    def test_layouts_that_cannot_be_minted_are_refused(self):
        self.refused(1, "bench", "--quick", "--layout", "sonyflake")
        self.refused(2, "bench", "--quick", "--layout", "x")


class Documentation(Case):
    def options(self, command):
        usage = self.done(command, "--help").split("Examples:")[0]
        lines = re.findall(r"(?m)^ +(?:-., )?(--.*)", usage)
        return {option for line in lines for option in re.findall(r"(?:^|, )(--[a-z-]+)", line)}

    def read(self, *path):
        with open(os.path.join(os.path.dirname(VECTORS), "..", "..", *path), encoding="utf-8") as file:
            return file.read()

    def test_the_counts_of_the_evidence_are_made_by_a_command(self):
        root = os.path.join(os.path.dirname(VECTORS), "..", "..")
        if not os.path.exists(os.path.join(root, ".git")):
            self.skipTest("no work tree: the files of this commit cannot be told")
        result = subprocess.run([os.path.join(root, "scripts", "evidence")], text=True, timeout=PATIENCE_S, check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        counts = dict(re.findall(r"(?m)^  (\S.*?) {2,}(\S+)$", result.stdout))
        self.assertGreater(len(counts), 18, result.stdout)
        for name, count in counts.items():
            self.assertRegex(count, r"^[1-9]\d*$", name)
        self.assertEqual(int(counts["rules that can be switched off"]),
                         len(re.findall(r"(?m)^    KZ__RULE_[A-Z_]+", self.read("core", "rules.h"))))

    def test_every_option_is_completed(self):
        text = self.read("completions", "kazahana.bash")
        for command in COMMANDS:
            self.assertIn(command, text)
            for option in self.options(command):
                self.assertIn(option, text, command)

    def test_three_shells_complete_from_one_description(self):
        root = os.path.join(os.path.dirname(VECTORS), "..", "..")
        checked = subprocess.run([sys.executable, os.path.join(root, "scripts", "completions"), "--check"], text=True,
                                 stderr=subprocess.PIPE, check=False)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        said = self.refused(2, "next", "--from", "nowhere:")
        schemes = re.findall(r"([a-z+]+:)[,)]", said)
        asked = {("ne",): "next", ("next", "--fro"): "--from", ("layout", "--ab"): "--above",
                 ("leases", "--wat"): "--watch", ("next", "--format", "base3"): "base32", ("help", "doc"): "doctor"}
        for shell, complete in {"bash": self.bash, "zsh": self.zsh, "fish": self.fish}.items():
            if not shutil.which(shell):
                self.skipTest(f"{shell} is not installed")
            for words, answer in asked.items():
                self.assertIn(answer, complete(os.path.join(root, "completions"), *words), (shell, words))
            offered = {word.rstrip("/") for word in complete(os.path.join(root, "completions"), "next", "--from", "")}
            self.assertLessEqual(set(schemes), offered, shell)

    def shell(self, *command):
        result = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_S,
                                check=False, env={**os.environ, "HOME": STATE.name})
        self.assertEqual(result.stderr, "", command)
        return [line.split("\t")[0] for line in result.stdout.splitlines()]

    def bash(self, folder, *words):
        return self.shell("bash", "--norc", "-c", f"source '{folder}/kazahana.bash'; COMP_WORDS=(kazahana \"$@\"); "
                          "COMP_CWORD=$#; _kazahana; printf '%s\\n' \"${COMPREPLY[@]}\"", "bash", *words)

    def zsh(self, folder, *words):
        # What adds to the list of a completion prints instead: it cannot be called outside of one.
        said = self.shell("zsh", "-f", "-c", "compadd() { print -l -- \"$@\" }; _describe() { print -l -- \"${(@P)2}\" }; "
                          "_files() { print FILES }; words=(kazahana \"$@\"); CURRENT=$#words; set --; "
                          f"source '{folder}/_kazahana'", "zsh", *words)
        return [line.split(":")[0] if ":" in line and " " in line else line for line in said]

    def fish(self, folder, *words):
        return self.shell("fish", "--no-config", "-c", f"source '{folder}/kazahana.fish'; complete -C $argv[1]",
                          "kazahana " + " ".join(words))

    def test_every_option_is_in_the_manual(self):
        pages = {"next": "kazahana-next.1.scd", "decode": "kazahana-decode.1.scd", "serve": "kazahana-serve.1.scd"}
        for command in COMMANDS:
            text = self.read("man", pages.get(command, "kazahana.1.scd"))
            self.assertIn(f"*{command}*", self.read("man", "kazahana.1.scd"))
            for option in self.options(command):
                self.assertIn(option, text, command)

    @unittest.skipUnless("serve" in COMMANDS, "this build has no server")
    def test_the_server_has_the_same_settings_everywhere(self):
        helped = self.options("serve")
        self.assertGreater(len(helped), 15)
        manual = self.read("man", "kazahana-serve.1.scd")
        headings = " ".join(re.findall(r"(?m)^\*--.*", manual))
        self.assertEqual(set(re.findall(r"\*(--[a-z-]+)\*", headings)), helped)
        completed = re.search(r"(?s)\n    serve\)\n(.*?);;", self.read("completions", "kazahana.bash")).group(1)
        self.assertEqual(set(re.findall(r"--[a-z-]+", completed)), helped)
        table = self.read("docs", "operations.md").split("| setting |")[1].split("\n\n")[0]
        keys = re.findall(r"`([a-z_]+)`", " ".join(row.split("|")[1] for row in table.splitlines()[2:]))
        flags = {"--" + key.replace("_", "-") for key in keys}
        self.assertEqual(flags | {"--config", "--profile", "--check-config"}, helped)


if __name__ == "__main__":
    parallel.main()
