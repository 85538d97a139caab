"""As much of a W&B server on this machine as its client needs to send runs to."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "a" * 40
STREAM = re.compile(r"/files/[^/]+/[^/]+/([^/]+)/file_stream")
USER = {
    "id": "u",
    "entity": "me",
    "username": "me",
    "email": "",
    "flags": "{}",
    "admin": False,
    "teams": {"edges": []},
    "apiKeys": {"edges": []},
}


@dataclass
class SentRun:
    """What has arrived of one run.

    Attributes:
        about: the variables of the requests that created or changed it.
        rows: of its history, in order.
        files: by name; those of W&B's own included.
        begun: how often a client has begun it, or gone on with it.
    """

    about: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    exit_code: int | None = None
    begun: int = 0

    @property
    def config(self) -> dict[str, Any]:
        """As it was sent, without W&B's own key."""
        sent = json.loads(self.about["config"])
        return {key: item["value"] for key, item in sent.items() if key != "_wandb"}


class Server(ThreadingHTTPServer):
    """Keeps what it is sent.

    Attributes:
        runs: by id.
        down: whether it answers nothing but errors.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.runs: dict[str, SentRun] = {}
        self.down = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client closes connections as it likes."""

    def environment(self) -> dict[str, str]:
        """Variables by which a client sends its runs here."""
        return {
            "WANDB_BASE_URL": f"http://127.0.0.1:{self.server_port}",
            "WANDB_API_KEY": KEY,
            "WANDB_ERROR_REPORTING": "false",
        }


@contextmanager
def serving() -> Iterator[Server]:
    """A server while the block lasts."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        self._reply({})

    def do_PUT(self) -> None:
        _, _, run, name = self.path.split("/", 3)
        self.server.runs[run].files[name] = self._body()
        self._reply({})

    def do_POST(self) -> None:
        body = self._body()
        stream = STREAM.match(self.path)
        if self.server.down:
            self._reply({"error": "down"}, 500)
        elif stream is not None:
            self._stream(self.server.runs[stream[1]], json.loads(body))
        else:
            query = json.loads(body)
            self._reply({"data": self._answer(query["query"], query.get("variables") or {})})

    def _stream(self, run: SentRun, sent: dict[str, Any]) -> None:
        for name, part in (sent.get("files") or {}).items():
            lines = [json.loads(line) for line in part["content"] if line.startswith("{")]
            if name == "wandb-history.jsonl":
                begin = part.get("offset", 0)
                run.rows[begin : begin + len(lines)] = lines
            elif name == "wandb-summary.json":
                run.summary = lines[-1]
        if sent.get("complete"):
            run.exit_code = sent.get("exitcode")
        self._reply({"exitcode": None, "limits": {}})

    def _answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        operation = re.search(r"(?:query|mutation)\s+(\w+)", query)
        name = operation[1] if operation else ""
        if name == "UpsertBucket":
            return self._upsert(variables)
        if name == "RunResumeStatus":
            return self._resume_status(variables)
        if name == "CreateRunFiles":
            base, run = self.server.environment()["WANDB_BASE_URL"], variables["run"]
            files = [{"name": f, "uploadUrl": f"{base}/up/{run}/{f}"} for f in variables["files"]]
            return {"createRunFiles": {"runID": "i", "uploadHeaders": [], "files": files}}
        if name == "ServerFeaturesQuery":
            return {"serverInfo": {"features": []}}
        return {"viewer": USER} if "viewer" in query else {}

    def _upsert(self, variables: dict[str, Any]) -> dict[str, Any]:
        new = variables["name"] not in self.server.runs
        run = self.server.runs.setdefault(variables["name"], SentRun())
        run.about.update({key: value for key, value in variables.items() if value is not None})
        run.begun += 1
        bucket = {
            "id": f"i-{variables['name']}",
            "name": variables["name"],
            "displayName": run.about.get("displayName"),
            "description": None,
            "config": run.about.get("config") or "{}",
            "sweepName": None,
            "historyLineCount": len(run.rows),
            "project": {"id": "p", "name": variables.get("project"), "entity": _ENTITY},
        }
        return {"upsertBucket": {"bucket": bucket, "inserted": new}}

    def _resume_status(self, variables: dict[str, Any]) -> dict[str, Any]:
        run = self.server.runs.get(variables["name"])
        bucket = run and {
            "id": f"i-{variables['name']}",
            "name": variables["name"],
            "summaryMetrics": json.dumps(run.summary),
            "displayName": run.about.get("displayName"),
            "logLineCount": 0,
            "historyLineCount": len(run.rows),
            "eventsLineCount": 0,
            "historyTail": json.dumps([json.dumps(row) for row in run.rows[-1:]]),
            "eventsTail": "[]",
            "config": run.about.get("config") or "{}",
            "tags": run.about.get("tags") or [],
            "wandbConfig": json.dumps({"t": 1}),
        }
        project = {"id": "p", "name": variables.get("project"), "entity": _ENTITY}
        return {"model": {**project, "bucket": bucket}}

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b"".join(self._chunks())
        else:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        packed = self.headers.get("Content-Encoding") == "gzip"
        return gzip.decompress(content) if packed else content

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _reply(self, answer: dict[str, Any], code: int = 200) -> None:
        content = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


_ENTITY = {"id": "e", "name": "me"}
