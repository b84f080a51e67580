"""Real servers for tests and demos, each on a free port of the loopback with its files in a folder of its own.

    with Redis(folder) as redis, Postgres(folder) as postgres: ...

Each has `port` and `url`; start() and kill() may be called again and again, as a crash and a recovery.
"""

import glob
import json
import os
import pwd
import random
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request

LOOPBACK = "127.0.0.1"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Whoever was started in the background may ignore signals, and what it starts would inherit that.
for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


def free_port():
    """Below those that the kernel gives to outgoing connections, so that none of them takes it before it is used, or
    while a server is down."""
    while True:
        port = random.randrange(10000, 32768)
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
                return port
            except OSError:
                continue


class Service:
    """A child process that is there when it answers."""

    program = None
    patience_s = 60

    def __init__(self, folder, name=None):
        self.port = free_port()
        self.folder = os.path.join(folder, name or f"{type(self).__name__.lower()}-{self.port}")
        os.makedirs(self.folder)
        self.process = None

    @classmethod
    def missing(cls):
        """Why it cannot be started here, or None."""
        return None if shutil.which(cls.program) else f"{cls.program} is not installed"

    def command(self):
        raise NotImplementedError

    def answers(self):
        raise NotImplementedError

    def log(self):
        """What it has said so far."""
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as text:
            return text.read()

    def start(self):
        with open(os.path.join(self.folder, "log"), "ab") as out:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            end = time.monotonic() + self.patience_s
            while not self.answers():
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{self.program} did not come up:\n{self.log()[-2000:]}")
                time.sleep(0.02)
        except BaseException:  # Ctrl-C too: nobody else would end it
            self.kill()
            raise
        return self

    def stop(self):
        """As an administrator would; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(self.patience_s)
        self.process = None
        return status

    def kill(self):
        """As a crash would. Also how a test ends: nothing of it is wanted any more."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()


class Redis(Service):
    """Durable unless the settings say otherwise."""

    program = "redis-server"

    def __init__(self, folder, *settings, certificate=None, password=None):
        """With a `certificate`, whose file has the key too, it speaks nothing but TLS."""
        super().__init__(folder)
        self.settings = settings or ("--appendonly", "yes", "--appendfsync", "always")
        self.certificate, self.password = certificate, password
        self.url = f"redis://{LOOPBACK}:{self.port}/0"

    def doors(self):
        """How it is reached, as settings."""
        doors = {"bind": LOOPBACK, "port": self.port, "dir": self.folder}
        if self.certificate:
            doors.update({"port": 0, "tls-port": self.port, "tls-cert-file": self.certificate, "tls-key-file":
                          self.certificate, "tls-ca-cert-file": self.certificate, "tls-auth-clients": "no",
                          "tls-replication": "yes"})
        if self.password:
            doors.update({"requirepass": self.password})
        return doors

    def command(self):
        doors = [word for name, value in self.doors().items() for word in (f"--{name}", str(value))]
        return [self.program, *doors, "--save", "", *self.settings]

    def answers(self):
        try:
            return self.ask("PING").startswith(("+PONG", "-NOAUTH"))
        except OSError:
            return False

    def ask(self, *words):
        """One command, and what it answers as it stands on the wire."""
        with socket.create_connection((LOOPBACK, self.port), timeout=5) as link:
            if self.certificate:
                link = ssl.create_default_context(cafile=self.certificate).wrap_socket(link, server_hostname=LOOPBACK)
            for command in ([("AUTH", self.password)] if self.password else []) + [words]:
                command = [word.encode() for word in command]
                link.sendall(b"*%d\r\n" % len(command) +
                             b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command))
                answer = link.recv(65536).decode()
            link.close()
            return answer


class Sentinel(Redis):
    """Watches one master, which it calls `name`, and promotes a replica by itself when that does not answer."""

    name = "mymaster"

    def __init__(self, folder, master, quorum=1, password=None):
        super().__init__(folder, certificate=master.certificate, password=password)
        self.configuration = os.path.join(self.folder, "sentinel.conf")
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.writelines(f"{name} {value}\n" for name, value in self.doors().items())
            file.write(f"sentinel monitor {self.name} {LOOPBACK} {master.port} {quorum}\n"
                       f"sentinel down-after-milliseconds {self.name} 2000\n"
                       f"sentinel failover-timeout {self.name} 5000\n")
            if master.password:
                file.write(f"sentinel auth-pass {self.name} {master.password}\n")

    def command(self):
        return [self.program, self.configuration, "--sentinel"]

    def master_port(self):
        return int(self.ask("SENTINEL", "get-master-addr-by-name", self.name).split("\r\n")[4])


class Postgres(Service):
    """A cluster of its own with the database and superuser `postgres`, no password, TCP only. PostgreSQL does not run
    as root: then it belongs to the user that Debian's package made. With `primary` it is that one's standby.
    `environment` is for its programs: libfaketime."""

    program = "postgres"

    def __init__(self, folder, *settings, primary=None, data=None):
        super().__init__(folder)
        self.settings = settings
        self.primary = primary
        self.environment = {}
        self.data = data or os.path.join(self.folder, "data")
        self.url = f"postgresql://postgres@{LOOPBACK}:{self.port}/postgres"
        self.dsn = f"host={LOOPBACK} port={self.port} user=postgres dbname=postgres"

    @classmethod
    def bin(cls):
        """Debian keeps its programs out of the PATH."""
        places = glob.glob("/usr/lib/postgresql/*/bin/postgres") + [shutil.which("postgres") or ""]
        return os.path.dirname(places[0])

    @classmethod
    def missing(cls):
        return None if cls.bin() else "postgresql is not installed"

    def as_owner(self, *command):
        command = [os.path.join(self.bin(), command[0]), *command[1:]]
        if self.environment:
            command = ["env", *(f"{name}={value}" for name, value in self.environment.items()), *command]
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--", *command] \
            if os.getuid() == 0 else command

    def run(self, *command, check=True):
        subprocess.run(self.as_owner(*command), check=check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       cwd="/")

    def start(self):
        if not os.path.exists(os.path.join(self.data, "PG_VERSION")):
            os.makedirs(self.data, 0o700, exist_ok=True)
            if os.getuid() == 0:
                owner = pwd.getpwnam("postgres")
                os.chown(self.data, owner.pw_uid, owner.pw_gid)
                os.chmod(self.data, 0o700)
                for folder in (self.folder, os.path.dirname(self.folder)):
                    os.chmod(folder, os.stat(folder).st_mode | 0o011)
            if self.primary:
                self.run("pg_basebackup", "-D", self.data, "-d", self.primary.url, "-R", "-X", "stream", "-c", "fast",
                         "--no-sync")
            else:
                self.run("initdb", "--no-sync", "-D", self.data, "-U", "postgres", "-A", "trust", "--encoding=UTF8",
                         "--locale=C")
        return super().start()

    def command(self):
        settings = [word for setting in self.settings for word in ("-c", setting)]
        return self.as_owner("postgres", "-D", self.data, "-h", LOOPBACK, "-p", str(self.port), "-k", "", *settings)

    def answers(self):
        return subprocess.run([os.path.join(self.bin(), "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(self.port)],
                              check=False).returncode == 0

    def pids(self):
        """The server and its processes."""
        pids = [self.process.pid] if self.process else []
        for stat in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(stat, encoding="utf-8", errors="replace") as file:
                    pid, _, rest = file.read().partition(" (")
                if pids and int(rest.rpartition(") ")[2].split()[1]) == pids[0]:
                    pids.append(int(pid))
            except OSError:
                pass
        return pids

    def signal_all(self, number):
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def crash(self):
        """All of it at once, as a power cut would."""
        self.signal_all(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def kill(self):
        """Its children would go on for a while: an immediate shutdown takes them along."""
        if self.process and self.process.poll() is None:
            self.signal_all(signal.SIGCONT)
            self.run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop", check=False)
        super().kill()

    def sql(self, text):
        """What psql prints for it, unaligned, without headings."""
        result = subprocess.run([os.path.join(self.bin(), "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
                                 self.url], input=text, text=True, capture_output=True, check=False)
        if result.returncode:
            raise RuntimeError(result.stderr.strip())
        return result.stdout.strip()

    def promote(self):
        """Until it accepts writes."""
        self.run("pg_ctl", "-D", self.data, "-w", "promote")


class Pgbouncer(Service):
    """A pooler that gives each transaction whichever of its few connections is free."""

    program = "pgbouncer"

    def __init__(self, folder, postgres, connections=2):
        super().__init__(folder)
        self.url = f"postgresql://postgres@{LOOPBACK}:{self.port}/postgres"
        self.configuration = os.path.join(self.folder, "pgbouncer.ini")
        users = os.path.join(self.folder, "users")
        with open(users, "w", encoding="ascii") as file:
            file.write('"postgres" ""\n')
        with open(self.configuration, "w", encoding="ascii") as file:
            file.write(f"[databases]\npostgres = host={LOOPBACK} port={postgres.port} user=postgres\n"
                       f"[pgbouncer]\nlisten_addr = {LOOPBACK}\nlisten_port = {self.port}\nunix_socket_dir =\n"
                       f"auth_type = any\nauth_file = {users}\npool_mode = transaction\n"
                       f"default_pool_size = {connections}\nserver_round_robin = 1\n")
        for path in (users, self.configuration):
            os.chmod(path, 0o644)

    def command(self):
        os.chmod(os.path.dirname(self.folder), 0o711)
        command = [shutil.which(self.program), "-q", self.configuration]
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--", *command] \
            if os.getuid() == 0 else command

    def answers(self):
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self.port)) == 0


class Posts(Service):
    """An instance of examples/posts. `address`: one of the loopback's, so that many can have the same port."""

    program = os.environ.get("POSTS", os.path.join(ROOT, "build", "examples", "posts", "posts"))

    def __init__(self, folder, name, database_url, source, address=LOOPBACK, port=None, flags=()):
        super().__init__(folder, name)
        self.name = name
        self.address = address
        self.port = port or self.port
        self.url = f"http://{address}:{self.port}"
        self.flags = ("--listen", f"{address}:{self.port}", "--database", database_url, "--source", source,
                      "--instance", name, *flags)

    @classmethod
    def missing(cls):
        return None if os.access(cls.program, os.X_OK) else f"{cls.program} is not built (make posts)"

    def command(self):
        return [self.program, *self.flags]

    def answers(self):
        try:
            with urllib.request.urlopen(self.url + "/health/live", timeout=5):
                return True
        except OSError:
            return False

    def health(self):
        """Its status, and what it says of itself."""
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, json.load(answer)

    def events(self, event):
        """The lines of its log about this event. A line that a kill cut off is none."""
        lines = []
        for line in self.log().splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                pass
        return [line for line in lines if line["event"] == event]


class Names:
    """A name server for one name, as the engine of containers has one: its answer is the addresses there are now."""

    def __init__(self, name):
        self.name = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"
        self.addresses = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((LOOPBACK, 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def serve(self):
        while True:
            query, client = self.socket.recvfrom(512)
            if not query:
                return
            self.socket.sendto(self.answer(query), client)

    def answer(self, query):
        end = query.index(b"\0", 12) + 1
        question = query[12:end + 4]
        known = query[12:end].lower() == self.name
        wanted = struct.unpack("!H", query[end:end + 2])[0]
        addresses = random.sample(self.addresses, len(self.addresses)) if known and wanted == 1 else []
        head = query[:2] + struct.pack("!HHHHH", 0x8180 if known else 0x8183, 1, len(addresses), 0, 0)
        records = (b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 1, 4) + socket.inet_aton(address) for address in addresses)
        return head + question + b"".join(records)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (LOOPBACK, self.port))
        self.thread.join()
        self.socket.close()


class Nginx(Service):
    """nginx with a configuration of ours, and whatever has to be different here."""

    program = "nginx"

    def __init__(self, folder, configuration):
        super().__init__(folder)
        self.url = f"http://{LOOPBACK}:{self.port}"
        with open(configuration, encoding="utf-8") as file:
            self.text = file.read()
        self.configuration = os.path.join(self.folder, "nginx.conf")
        self.change({"http {": "http {" + "".join(f" {kind}_temp_path {self.folder}/{kind};" for kind in
                                                  ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))})

    def change(self, places):
        """What is to stand in the place of what; each of these must be there, and once."""
        for old, new in places.items():
            if self.text.count(old) != 1:
                raise ValueError(f"{self.configuration}: '{old}' is there {self.text.count(old)} times, not once")
            self.text = self.text.replace(old, new)
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(self.text)

    def command(self, *more):
        return [self.program, "-p", self.folder, "-e", "stderr", "-c", self.configuration,
                "-g", f"daemon off; pid {self.folder}/pid;", *more]

    def answers(self):
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self.port)) == 0

    def kill(self):
        """A master that is killed leaves its workers behind, so it is told to end, and at once."""
        if self.process and self.process.poll() is None:
            self.stop()
