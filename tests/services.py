"""Real servers for tests and demos, each on a free port of the loopback with its files in a folder of its own.

    with Redis(folder) as redis, Postgres(folder) as postgres: ...

Each has `port` and `url`; start() and kill() may be called again and again, as a crash and a recovery.
"""

import glob
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import time

LOOPBACK = "127.0.0.1"

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

    def __init__(self, folder):
        self.port = free_port()
        self.folder = os.path.join(folder, f"{type(self).__name__.lower()}-{self.port}")
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

    def start(self):
        log = os.path.join(self.folder, "log")
        with open(log, "ab") as out:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        end = time.monotonic() + self.patience_s
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                with open(log, encoding="utf-8", errors="replace") as text:
                    raise RuntimeError(f"{self.program} did not come up:\n{text.read()[-2000:]}")
            time.sleep(0.02)
        return self

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

    def __init__(self, folder, *settings):
        super().__init__(folder)
        self.settings = settings or ("--appendonly", "yes", "--appendfsync", "always")
        self.url = f"redis://{LOOPBACK}:{self.port}/0"

    def command(self):
        return [self.program, "--bind", LOOPBACK, "--port", str(self.port), "--dir", self.folder, "--save", "",
                *self.settings]

    def answers(self):
        try:
            return self.ask("PING").startswith(("+PONG", "-NOAUTH"))
        except OSError:
            return False

    def ask(self, *words):
        """One command, and what it answers as it stands on the wire."""
        with socket.create_connection((LOOPBACK, self.port), timeout=5) as link:
            words = [word.encode() for word in words]
            link.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            return link.recv(65536).decode()


class Sentinel(Redis):
    """Watches one master, which it calls `name`, and promotes a replica by itself when that does not answer."""

    name = "mymaster"

    def __init__(self, folder, master, quorum=1):
        super().__init__(folder)
        self.configuration = os.path.join(self.folder, "sentinel.conf")
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(f"port {self.port}\nbind {LOOPBACK}\ndir {self.folder}\n"
                       f"sentinel monitor {self.name} {LOOPBACK} {master.port} {quorum}\n"
                       f"sentinel down-after-milliseconds {self.name} 2000\n"
                       f"sentinel failover-timeout {self.name} 5000\n")

    def command(self):
        return [self.program, self.configuration, "--sentinel"]

    def master_port(self):
        return int(self.ask("SENTINEL", "get-master-addr-by-name", self.name).split("\r\n")[4])


class Postgres(Service):
    """A cluster of its own with the database and superuser `postgres`, no password, TCP only. PostgreSQL does not run
    as root: then it belongs to the user that Debian's package made."""

    program = "postgres"

    def __init__(self, folder, *settings):
        super().__init__(folder)
        self.settings = settings
        self.data = os.path.join(self.folder, "data")
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
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--", *command] \
            if os.getuid() == 0 else command

    def start(self):
        if not os.path.exists(self.data):
            os.mkdir(self.data, 0o700)
            if os.getuid() == 0:
                owner = pwd.getpwnam("postgres")
                os.chown(self.data, owner.pw_uid, owner.pw_gid)
                for folder in (self.folder, os.path.dirname(self.folder)):
                    os.chmod(folder, os.stat(folder).st_mode | 0o011)
            subprocess.run(self.as_owner("initdb", "--no-sync", "-D", self.data, "-U", "postgres", "-A", "trust",
                                         "--encoding=UTF8", "--locale=C"),
                           check=True, stdout=subprocess.DEVNULL, cwd="/")
        return super().start()

    def command(self):
        settings = [word for setting in self.settings for word in ("-c", setting)]
        return self.as_owner("postgres", "-D", self.data, "-h", LOOPBACK, "-p", str(self.port), "-k", "", *settings)

    def answers(self):
        return subprocess.run([os.path.join(self.bin(), "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(self.port)],
                              check=False).returncode == 0

    def kill(self):
        """Its children would go on for a while: an immediate shutdown takes them along."""
        if self.process and self.process.poll() is None:
            subprocess.run(self.as_owner("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop"),
                           check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        super().kill()

    def sql(self, text):
        """What psql prints for it, unaligned, without headings."""
        result = subprocess.run([os.path.join(self.bin(), "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
                                 self.url], input=text, text=True, capture_output=True, check=False)
        if result.returncode:
            raise RuntimeError(result.stderr.strip())
        return result.stdout.strip()
