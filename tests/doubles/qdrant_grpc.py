# SPDX-License-Identifier: GPL-2.0-only
"""The gRPC side of the Qdrant double: uploads, which is all that the store does by gRPC, into the same engine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from qdrant_client import grpc as messages
from qdrant_client.conversions.conversion import GrpcToRest
from qdrant_client.grpc.points_service_pb2_grpc import PointsServicer, add_PointsServicer_to_server

from doubles.qdrant_server import QdrantDouble


class GrpcDouble(PointsServicer):
    """Serves beside a QdrantDouble, on a port of its own. `failures` are status and words, one for each next call."""

    def __init__(self, double: QdrantDouble) -> None:
        self.double = double
        self.failures: list[tuple[grpc.StatusCode, str]] = []
        self.uploads = 0
        self.port = 0
        self._server: Any = None

    def __enter__(self) -> GrpcDouble:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", -1)])
        add_PointsServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()

    def Upsert(self, request: Any, context: Any) -> Any:
        key = dict(context.invocation_metadata()).get("api-key")
        if self.double.api_key is not None and key != self.double.api_key:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid API key or JWT")
        if self.failures:
            context.abort(*self.failures.pop(0))
        points = [GrpcToRest.convert_point_struct(point) for point in request.points]
        with self.double.lock:
            self.double.engine.upsert(request.collection_name, points)
        self.uploads += 1
        result = messages.UpdateResult(operation_id=0, status=messages.UpdateStatus.Completed)
        return messages.PointsOperationResponse(result=result, time=0.0)
