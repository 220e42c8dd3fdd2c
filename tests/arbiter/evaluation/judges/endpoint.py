"""A judge on this machine: an OpenAI-compatible endpoint that replies by a rule, and keeps what it was sent."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from flywheel.settings import Settings

Rule = Callable[[str, str], Any]
"""From criterion and answer to a reply: an object to be written as JSON, a text as it is, or an HTTP status."""
CRITERION = re.compile(r"^Criterion: (\S+)$", re.MULTILINE)
ANSWER = re.compile(r"\[\[BEGIN ANSWER #(\w+)\]\]\n(.*)\n\[\[END ANSWER #\1\]\]", re.DOTALL)
PAIR = re.compile(
    r"\[\[BEGIN FIRST ANSWER #(\w+)\]\]\n(.*)\n\[\[END FIRST ANSWER #\1\]\]\s*"
    r"\[\[BEGIN SECOND ANSWER #\1\]\]\n(.*)\n\[\[END SECOND ANSWER #\1\]\]",
    re.DOTALL,
)


def score(value: Any, confidence: Any = 0.9, reason: Any = "as the rule says") -> dict[str, Any]:
    return {"reason": reason, "score": value, "confidence": confidence}


def choice(better: str) -> dict[str, Any]:
    return {"reason": "as the rule says", "better": better, "confidence": 0.9}


def judged_answer(messages: Sequence[dict[str, str]]) -> tuple[str, str]:
    """Criterion and answer, found as a model has to find them: by the marks."""
    criterion, answer = CRITERION.search(messages[0]["content"]), ANSWER.search(messages[1]["content"])
    assert criterion is not None
    assert answer is not None
    return criterion[1], answer[2]


class JudgeEndpoint:
    """Replies by ``rule``; one that takes the messages themselves may be set as ``reply``."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.reply: Callable[[list[dict[str, str]]], Any] = lambda messages: self.rule(*judged_answer(messages))
        self.bodies: list[dict[str, Any]] = []
        self.knows_schemas = True
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.bodies.append(body)
                known = endpoint.knows_schemas or "response_format" not in body
                said = endpoint.reply(body["messages"]) if known else 400
                status = said if isinstance(said, int) else 200
                text = said if isinstance(said, str) or said is None else json.dumps(said)
                refusal = said.get("refusal") if isinstance(said, dict) else None
                message = {"role": "assistant", "content": None if refusal else text, "refusal": refusal}
                content = json.dumps({"choices": [{"message": message}]}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    @property
    def asked(self) -> list[str]:
        """Criteria that it was asked about, in order."""
        return [found[1] for body in self.bodies if (found := CRITERION.search(body["messages"][0]["content"]))]


@contextmanager
def serving(rule: Rule) -> Iterator[JudgeEndpoint]:
    endpoint = JudgeEndpoint(rule)
    thread = threading.Thread(target=endpoint.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.server.shutdown()
        thread.join()
        endpoint.server.server_close()


def judges_of(*urls: str, **fields: Any) -> dict[str, Any]:
    """The section with a judge at each URL, ``one`` and ``two``."""
    models = [
        {"id": name, "model": f"model-{name}", "base_url": url, "timeout_s": 10, "max_concurrent": 8}
        for name, url in zip(("one", "two"), urls, strict=False)
    ]
    return {"models": models, **fields}


def with_judges(settings: Settings, *urls: str, **fields: Any) -> Settings:
    """The settings with judges at these URLs."""
    judges = type(settings.judges).model_validate(judges_of(*urls, **fields))
    return settings.model_copy(update={"judges": judges})
