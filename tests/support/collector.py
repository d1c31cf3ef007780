"""A collector of OTLP over HTTP that keeps what it gets."""

import http.server
import threading
import typing

from typing_extensions import override


class Collector:
    """A collector on a port of this machine.

    Args:
        redirects: where it sends its clients instead; "" for a collector that takes what it gets.
    """

    def __init__(self, redirects: str = "") -> None:
        self.received: list[typing.Any] = []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                # The packages of OpenTelemetry are an extra.
                from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
                    ExportTraceServiceRequest,
                )

                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.received.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(308 if redirects else 200)
                if redirects:
                    self.send_header("Location", redirects)
                self.send_header("Content-Length", "0")
                self.end_headers()

            @override
            def log_request(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def spans(self) -> list[typing.Any]:
        return [
            span
            for request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
