"""An OpenAI-compatible endpoint on loopback that counts what it is paid for, and misbehaves where it is told to."""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODIES = {  # sent with status 200
    "web page": b"<html>please log in</html>",
    "no text": b'{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}',
    "trickle": b'{"choices": [{"text": "late", "finish_reason": "stop"}]}',
}


class Endpoint:
    """Answers every prompt with `answer(prompt)`, in threads of this process; tokens are words.

    Attributes:
        faults: for a prompt, the faults its next requests meet, one each; a last "..." repeats the one before it. A
            fault is a status, a name of `BODIES` ("trickle": a byte at a time), "cut", "delay", or ("redirect",
            address).
        delay: seconds an answer takes.
        held: answers after which requests get none until `close`; None holds none.
        on_request: called with the number of each request, counted from 1, before it is answered.
        requests: path, JSON body and prompt of each.
        paid: whole answers sent, by prompt.
        said: text of an error's message.
    """

    def __init__(self, answer=lambda prompt: prompt[::-1]):
        self.answer, self.faults, self.delay = answer, {}, 0.0
        self.held, self.on_request, self.said = None, lambda number: None, "told to fail"
        self.requests, self.paid = [], Counter()
        self.lock, self.closed = threading.Lock(), threading.Event()

    def __enter__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self.server.handle_error = lambda *_: None  # a client that went away
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.closed.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/v1"

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
        with endpoint.lock:
            endpoint.requests.append({"path": self.path, "body": body, "prompt": prompt})
            number, fault = len(endpoint.requests), endpoint.next_fault(prompt)
        endpoint.on_request(number)
        self.fail(fault) if fault else self.succeed(body, prompt)

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
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())}
        self.reply(200, json.dumps({"model": body["model"], "choices": [choice], "usage": usage}).encode())

    def fail(self, fault):
        if fault == "trickle":
            self.trickle(BODIES[fault])
        elif fault in BODIES:
            self.reply(200, BODIES[fault])
        elif isinstance(fault, tuple):
            self.reply(307, b"", {"Location": fault[1]})
        elif isinstance(fault, int):
            message = json.dumps({"error": {"message": self.owner.said, "code": fault}}).encode()
            self.reply(fault, message, {"Retry-After-Ms": "1"})
        else:
            self.owner.closed.wait(20 if fault == "delay" else 0)
            self.cut()

    def trickle(self, body):
        self.cut()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
        for i in range(len(body)):
            self.wfile.write(body[i : i + 1])
            self.wfile.flush()
            self.owner.closed.wait(0.04)

    def cut(self):
        self.close_connection = True

    def reply(self, status, body, headers=None):
        self.send_response(status)
        fixed = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        for name, value in (fixed | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
