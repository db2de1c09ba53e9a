"""An OpenAI-compatible endpoint on loopback that counts what it is paid for, and misbehaves where it is told to."""

import json
import socket
import struct
import sys
import threading
import time
from collections import Counter
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STATUSES = {"400": 400, "401": 401, "403": 403, "404": 404, "408": 408, "429": 429, "500": 500, "503": 503}
BODIES = {  # sent with status 200 and a JSON content type
    "invalid JSON": b'{"choices": [{"tex',
    "bad UTF-8": b'{"choices": "\xff"}',
    "deep JSON": b"[" * 100_000,
    "null": b"null",
    "list": b"[]",
    "no choices": b'{"id": "1", "error": {"message": "overloaded"}}',
    "empty choices": b'{"choices": []}',
    "null text": b'{"choices": [{"text": null, "message": {"content": null}, "finish_reason": "stop"}]}',
}
ENDS = ("length", "content_filter")  # of an answer without text
TRICKLES = ("slow head", "slow body")  # a byte at a time, never long without one
TRANSIENT = ("delay", "429", "429 now", "408", "500", "503", "cut", "cut body", "reset", "web page", *BODIES)


class Loopback:
    """An HTTP server in threads of this process; errors but those of a lost connection are raised when it ends.

    A subclass names its `handler`, whose `owner` is the server.
    """

    def __enter__(self):
        handler = type("Handler", (self.handler,), {"owner": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.errors = []
        self.server.handle_error = lambda *_: self.errors.append(sys.exception())
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        for error in self.errors:
            if not isinstance(error, OSError):  # a client that went away is none of this server's errors
                raise error

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/v1"


class Endpoint(Loopback):
    """Answers every prompt with `answer(prompt)`; tokens are words.

    Attributes:
        faults: for a prompt, the faults its next requests meet, one each; a last "..." repeats the one before it.
            A fault is a name of `TRANSIENT`, `TRICKLES`, `STATUSES` or `ENDS`, ("429", text of a Retry-After header),
            ("redirect", address), or the body of an answer.
        delay: seconds an answer takes.
        held: answers after which requests get none until `close`; None holds none.
        on_request: called with the number of each request, counted from 1, before it is answered.
        requests: path, query included, headers, JSON body, prompt and time of arrival of each.
        paid: whole answers sent, by prompt.
        peak: most requests under way at a time.
        said: text of an error's message.
        headers: sent with each answer.
    """

    def __init__(self, answer=lambda prompt: prompt[::-1], faults=None, delay=0.0, usage=True):
        self.answer, self.faults, self.delay, self.usage = answer, dict(faults or {}), delay, usage
        self.held, self.on_request, self.said = None, lambda number: None, "told to fail"
        self.headers = {}
        self.requests, self.paid, self.peak, self.under_way = [], Counter(), 0, 0
        self.lock, self.closed = threading.Lock(), threading.Event()

    @property
    def handler(self):
        return _Handler

    def __exit__(self, *_):
        self.closed.set()
        super().__exit__()

    def asked(self, prompt):
        """The requests for a prompt."""
        return [request for request in self.requests if request["prompt"] == prompt]

    def next_fault(self, prompt):
        faults = self.faults.get(prompt, [])
        return faults[0] if faults[1:] == ["..."] else faults.pop(0) if faults else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        pass

    def do_POST(self):
        endpoint = self.owner
        length = int(self.headers["Content-Length"])
        content = self.rfile.read(length)
        if len(content) < length:  # killed while it asked
            return self.cut()
        body = json.loads(content)
        prompt = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
        request = {"path": self.path, "headers": self.headers, "body": body, "prompt": prompt}
        with endpoint.lock:
            endpoint.requests.append(request | {"time": time.time()})
            endpoint.under_way += 1
            endpoint.peak = max(endpoint.peak, endpoint.under_way)
            number, fault = len(endpoint.requests), endpoint.next_fault(prompt)
        try:
            endpoint.on_request(number)
            self.fail(fault) if fault else self.succeed(body, prompt)
        finally:
            with endpoint.lock:
                endpoint.under_way -= 1

    def succeed(self, body, prompt):
        endpoint = self.owner
        endpoint.closed.wait(endpoint.delay)
        with endpoint.lock:
            held = endpoint.held is not None and sum(endpoint.paid.values()) >= endpoint.held
            endpoint.paid[prompt] += not held
        if held:
            endpoint.closed.wait()
            return self.cut()
        words = endpoint.answer(prompt).split(" ")
        text, whole = " ".join(words[: body["max_tokens"]]), len(words) <= body["max_tokens"]
        choice = {"index": 0, "finish_reason": "stop" if whole else "length"}
        choice |= {"message": {"role": "assistant", "content": text}} if "messages" in body else {"text": text}
        content = {"id": "1", "object": "completion", "created": 0, "model": body["model"], "choices": [choice]}
        if endpoint.usage:
            tokens = len(prompt.split()), len(text.split())
            content["usage"] = dict(
                zip(("prompt_tokens", "completion_tokens", "total_tokens"), (*tokens, sum(tokens)), strict=True)
            )
        self.reply(200, json.dumps(content).encode(), endpoint.headers)

    def fail(self, fault):
        name, header = fault if isinstance(fault, tuple) else (fault, None)
        if isinstance(name, bytes):
            self.reply(200, name)
        elif name in TRICKLES:
            self.trickle(name)
        elif name == "redirect":
            self.reply(307, b"", {"Location": header})
        elif name in BODIES:
            self.reply(200, BODIES[name])
        elif name in ENDS:
            self.reply(200, BODIES["null text"].replace(b"stop", name.encode()))
        elif name == "web page":
            self.reply(200, b"<html>please log in</html>", kind="text/html")
        elif name == "429 now":
            self.reply(429, b"slow down", {"Retry-After": formatdate(usegmt=True)}, kind="text/plain")
        elif name in STATUSES:
            message = json.dumps({"error": {"message": self.owner.said, "code": name}}).encode()
            self.reply(STATUSES[name], message, {"Retry-After": header} if header else {})
        elif name == "delay":
            self.owner.closed.wait(20)
            self.cut()
        elif name == "cut":
            self.cut()
        elif name == "cut body":
            self.reply(200, b'{"choices": [', {"Content-Length": "500"})
            self.cut()
        elif name == "reset":  # closed with a reset rather than an end
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.cut()
        else:
            raise ValueError(f"no such fault: {name}")

    def trickle(self, name):
        body = b'{"choices": [{"text": "late", "finish_reason": "stop"}]}'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        self.cut()
        whole = head + body
        at_once = 0 if name == "slow head" else len(head)
        self.wfile.write(whole[:at_once])
        for i in range(at_once, len(whole)):
            self.wfile.write(whole[i : i + 1])
            self.wfile.flush()
            self.owner.closed.wait(0.04)

    def cut(self):
        self.close_connection = True

    def reply(self, status, body, headers=None, kind="application/json"):
        self.send_response(status)
        for name, value in ({"Content-Type": kind, "Content-Length": str(len(body))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
