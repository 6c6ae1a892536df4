"""As much of a W&B server as the client asks for: runs with their history and summary, in memory."""

import gzip
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OWNER = {"id": "owner", "name": "lab"}


class WandbServer(ThreadingHTTPServer):
    """Answers at `url` within a `with` block.

    Args:
        dies: nothing is answered any more once a run has begun.

    Attributes:
        runs: run id to its history, a list of rows by offset, and its summary.
    """

    daemon_threads = True

    def __init__(self, dies=False):
        super().__init__(("127.0.0.1", 0), Answer)
        self.dies = dies
        self.runs = {}
        self.configs = {}
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)

    def handle_error(self, request, client_address):
        """A client that is gone is no error."""

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def resume_status(self, name, project, **_):
        """What is known of a run; None where it is new."""
        run = self.runs.get(name)
        bucket = run and {
            "id": name,
            "name": name,
            "displayName": name,
            "summaryMetrics": json.dumps(run["summary"]),
            "config": self.configs[name],
            "historyLineCount": len(run["history"]),
            "historyTail": json.dumps([json.dumps(row) for row in run["history"][-1:]]),
            "eventsLineCount": 0,
            "eventsTail": "[]",
            "logLineCount": 0,
            "tags": [],
            "notes": "",
            "wandbConfig": '{"t": 1}',
        }
        return {"model": {"id": project, "name": project, "entity": OWNER, "bucket": bucket}}

    def upsert(self, name, project, config=None, displayName=None, **_):
        is_new = name not in self.runs
        run = self.runs.setdefault(name, {"history": [], "summary": {}})
        self.configs[name] = config or self.configs.get(name, "{}")
        where = {"id": project, "name": project, "entity": OWNER}
        known = {"description": "", "config": None, "sweepName": None, "historyLineCount": len(run["history"])}
        bucket = {"id": name, "name": name, "displayName": displayName or name, "project": where, **known}
        return {"upsertBucket": {"bucket": bucket, "inserted": is_new}}

    def create_files(self, run, files, **_):
        places = [{"name": file, "uploadUrl": f"{self.url}/upload/{file}"} for file in files]
        return {"createRunFiles": {"runID": run, "uploadHeaders": [], "files": places}}

    def stream(self, name, files):
        """Rows replace those at their offset, as on the real server."""
        run = self.runs[name]
        history = files.get("wandb-history.jsonl")
        if history:
            rows = [json.loads(line) for line in history["content"]]
            run["history"][history["offset"] : history["offset"] + len(rows)] = rows
        for line in files.get("wandb-summary.json", {}).get("content", ()):
            run["summary"] = json.loads(line)
        return {}


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        if self.server.dies and self.server.runs:
            self.send_error(503)
        else:
            self._answer(self._find(content))

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer({})

    def do_GET(self):
        self._answer({})

    def _find(self, content):
        if stream := re.fullmatch(r"/files/.*/([^/]+)/file_stream", self.path):
            return self.server.stream(stream[1], json.loads(content).get("files") or {})
        if self.path != "/graphql":
            return {}
        asked = json.loads(content)
        methods = {
            "RunResumeStatus": self.server.resume_status,
            "UpsertBucket": self.server.upsert,
            "CreateRunFiles": self.server.create_files,
        }
        method = methods.get(asked["operationName"])
        return {"data": method(**asked["variables"]) if method else {}}

    def _answer(self, data):
        content = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass
