"""A client of HTTP/1.1 on one connection that it keeps, quick enough to be many of. For answers with a length."""

import socket


class Connection:
    def __init__(self, host, port, timeout_s=60):
        self.host, self.port, self.timeout_s = host, port, timeout_s
        self.socket = None
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.socket:
            self.socket.close()
            self.socket = None
        self.buffer = b""

    def send(self, data):
        if not self.socket:
            self.socket = socket.create_connection((self.host, self.port), self.timeout_s)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(data)

    def ask(self, method, path, body=None, headers=""):
        """(status, headers with names in lower case, text). OSError: no answer; the next call connects anew."""
        data = (body or "").encode()
        length = f"Content-Length: {len(data)}\r\n" if body is not None else ""
        try:
            self.send(f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\n{length}{headers}\r\n".encode() + data)
            return self.answer(method)
        except OSError:
            self.close()
            raise

    def answer(self, method="GET"):
        head, self.buffer = self.until(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(headers.get("content-length", 0)) if method != "HEAD" else 0
        while len(self.buffer) < length:
            self.more()
        text, self.buffer = self.buffer[:length].decode(), self.buffer[length:]
        if headers.get("connection", "").lower() == "close":
            self.close()
        return int(lines[0].split()[1]), headers, text

    def until(self, mark):
        while mark not in self.buffer:
            self.more()
        return self.buffer.split(mark, 1)

    def more(self):
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the connection was closed before the answer")
        self.buffer += data
