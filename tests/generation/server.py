"""A language model behind an OpenAI-compatible server on loopback, and a proxy in front of it that injects faults."""

import http.client
import itertools
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.generation.endpoint import Loopback

# Each keeps the request from the model, which therefore is never paid for an answer that does not arrive; a delay alone
# lets it through afterwards.
FAULTS = ("delay", "429", "500", "cut", "invalid JSON")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        pass

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        content = self.rfile.read(length)
        reply = self.owner.respond(self.path, content, self.headers) if len(content) == length else None
        if reply is None:
            self.close_connection = True
            return
        status, body, headers = reply
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json", "Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


class _Server(Loopback):
    handler = _Handler


class ModelServer(_Server):
    """Serves a model that runs in this process, one request at a time.

    Args:
        generate: `generate` of `lib.generation.local.LocalModel` or of something like it; `model` is its owner, whose
            `costs` and `finished` are read, or None to count words.

    Attributes:
        paid: how often an answer was sent, by (path, body), as texts.
        answers: the answer to each prompt.
        keys: what was sent as key.
    """

    def __init__(self, generate, model=None):
        self.generate, self.model = generate, model
        self.paid, self.answers, self.keys, self.lock = Counter(), {}, set(), threading.Lock()

    def respond(self, path, content, headers):
        body = json.loads(content)
        chat = "messages" in body
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        settings = {"max_new_tokens": body["max_tokens"], "stop": body.get("stop", []), "chat": chat}
        settings |= {"temperature": body["temperature"], "seed": body.get("seed", 0)}
        with self.lock:
            (text,) = self.generate([prompt], **settings)
            finished, tokens = True, [len(prompt.split()), len(text.split())]
            if self.model is not None:
                finished, cost = self.model.finished[0], self.model.costs[0]
                tokens = [cost.tokens_in, cost.tokens_out]
            self.paid[path, content.decode()] += 1
            self.answers[prompt] = text
            self.keys.add(headers.get("Authorization", "").removeprefix("Bearer "))
        answer = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        choice = {"index": 0, "finish_reason": "stop" if finished else "length"} | answer
        usage = dict(zip(("prompt_tokens", "completion_tokens", "total_tokens"), [*tokens, sum(tokens)], strict=True))
        completion = {"id": "1", "object": "completion", "created": 0, "model": body["model"], "usage": usage}
        return 200, json.dumps(completion | {"choices": [choice]}).encode(), {}


class FaultyProxy(_Server):
    """Passes requests on to a server, but gives every `every`-th a fault, one of `FAULTS` after the other.

    Attributes:
        injected: faults so far, by name.
        requests: how many came.
    """

    def __init__(self, upstream, every=3, delay=0.3, retry_after="0.2"):
        self.upstream, self.every, self.delay, self.retry_after = urlsplit(upstream), every, delay, retry_after
        self.injected, self.requests = Counter(), 0
        self.faults, self.lock = itertools.cycle(FAULTS), threading.Lock()

    def respond(self, path, content, headers):
        with self.lock:
            self.requests += 1
            fault = next(self.faults) if self.requests % self.every == 0 else ""
            self.injected[fault] += bool(fault)
        if fault == "cut":
            return None
        if fault == "429":
            return 429, b'{"error": {"message": "slow down"}}', {"Retry-After": self.retry_after}
        if fault == "500":
            return 500, b"oops", {"Content-Type": "text/plain"}
        if fault == "invalid JSON":
            return 200, b'{"choices": [{"message": {"cont', {}
        if fault == "delay":
            time.sleep(self.delay)
        connection = http.client.HTTPConnection(self.upstream.hostname, self.upstream.port, timeout=60)
        try:
            sent = {name: headers[name] for name in ("Authorization", "Content-Type") if name in headers}
            connection.request("POST", path, content, sent)
            reply = connection.getresponse()
            return reply.status, reply.read(), {}
        finally:
            connection.close()
