"""HRR cleanup over HTTP: POST /cleanup, PUT /items/{name}, GET /items, /health and /metrics.

Each request is computed by itself, so that its answer has the same bits whatever else is asked at the same time. A
changed item is in the file before it is acknowledged, and a process that is killed starts again with all of them.

Run: python examples/serving/service.py model.safetensors --port 8000  (cleanup_model.py makes the file)
"""

import argparse
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import prometheus_client
import torch
import uvicorn
from cleanup_model import CleanupModel, key_of_environment
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, FailFast, Field, StringConstraints, model_validator

import torch_hrr
from torch_hrr import runtime

BATCH, ITEMS, LENGTH = 64, 100_000, 2**16
# Of a body: room for every element of the largest request, as text, and for what is around them.
ELEMENT_BYTES, OTHER_BYTES = 32, 2**16
# Most keys of an object, and the letters of one that an error repeats.
KEYS, SHOWN = 10, 100
# All others are counted as one: any token is a method, and would be a series for good.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
# Far from where float32 overflows in a sum of products.
Element = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False, strict=True)]
# FailFast: the errors of a million elements would take many seconds.
Vector = Annotated[list[Element], FailFast(), Field(min_length=1, max_length=LENGTH)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Body(BaseModel):
    """What a request may send."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def few_keys(cls, value: Any) -> Any:
        """Refuses many keys before each of them is an error."""
        if isinstance(value, dict) and len(value) > KEYS:
            raise ValueError(f"there must be at most {KEYS} keys, got {len(value)}")
        return value


class Question(Body):
    """Records, and the role under which to look; None asks for the records themselves."""

    records: Annotated[list[Vector], FailFast(), Field(min_length=1, max_length=BATCH)]
    role: Name | None = None
    top_k: Annotated[int, Field(ge=1, le=100, strict=True)] = 1


class Answer(BaseModel):
    """For each record, names and cosines of the nearest items, the nearest first."""

    names: list[list[str]]
    cosines: list[list[float]]


class Item(Body):
    """The vector of an item."""

    vector: Vector


class Measured:
    """Counts and times requests, and refuses bodies that are too long before they are read."""

    def __init__(self, app: Any, registry: prometheus_client.CollectorRegistry) -> None:
        """Metrics are kept in the registry."""
        self.app = app
        labels = ["method", "path", "status"]
        self.requests = prometheus_client.Counter(
            "torch_hrr_serving_requests", "Requests by path and status.", labels, registry=registry
        )
        self.seconds = prometheus_client.Histogram(
            "torch_hrr_serving_request_seconds", "Time of requests by path.", ["path"], registry=registry
        )

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """A request, as ASGI hands it on."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status, length = time.perf_counter(), 500, 0
        most = BATCH * ELEMENT_BYTES * scope["app"].state.model.items.shape[-1] + OTHER_BYTES
        too_long = f"the body must have at most {most} bytes"

        async def limited() -> Any:
            nonlocal length
            message = await receive()
            length += len(message.get("body", b""))
            if length > most:
                raise HTTPException(413, too_long)
            return message

        async def noted(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        told = dict(scope["headers"]).get(b"content-length", b"0")
        try:
            if told.isdigit() and int(told) > most:
                await JSONResponse({"detail": too_long}, 413)(scope, receive, noted)
            else:
                await self.app(scope, limited, noted)
        finally:
            # The route's pattern: names of items would make a series each.
            path = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in METHODS else "other"
            self.requests.labels(method, path, status).inc()
            self.seconds.labels(path).observe(time.perf_counter() - start)


def create_app(path: str | Path, key: bytes | None = None, device: str = "auto") -> FastAPI:
    """The application that serves a file, which is read at once: what it cannot be is an error here."""
    registry = prometheus_client.CollectorRegistry(auto_describe=True)
    prometheus_client.Gauge("torch_hrr_serving_items", "Items in memory.", registry=registry).set_function(
        lambda: len(app.state.model.names)
    )
    writing = threading.Lock()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with runtime.ResourceMonitor(app.state.model.items.device, interval=1, most=60) as monitor:
            collector = runtime.prometheus_collector(monitor)
            registry.register(collector)
            yield
            registry.unregister(collector)

    app = FastAPI(title="torch_hrr cleanup", lifespan=lifespan)
    app.state.model = CleanupModel.load(path, key, device)
    app.add_middleware(Measured, registry=registry)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # Without what was sent, which may be long, and NaN, which JSON cannot hold; a key that was sent is cut.
        detail = [
            {"loc": [part[:SHOWN] if isinstance(part, str) else part for part in each["loc"]]}
            | {"msg": each["msg"], "type": each["type"]}
            for each in error.errors()[:5]
        ]
        return JSONResponse({"detail": detail}, 422)

    def tensor(model: CleanupModel, name: str, vectors: list[list[float]]) -> torch.Tensor:
        dim = model.items.shape[-1]
        for each in vectors:
            if len(each) != dim:
                raise HTTPException(422, f"{name} must have {dim} elements, got {len(each)}")
        return torch.tensor(vectors, dtype=torch.float32, device=model.items.device)

    @app.post("/cleanup")
    def cleanup(question: Question) -> Answer:
        model: CleanupModel = app.state.model
        records = tensor(model, "each record", question.records)
        if question.role is not None and question.role not in model.names:
            raise HTTPException(422, f"role must be the name of an item, got {json.dumps(question.role)}")
        cosines, names = model.ask(records, question.role, question.top_k)
        return Answer(names=names, cosines=cosines.tolist())

    @app.put("/items/{name}", status_code=204)
    def put(name: Name, item: Item) -> None:
        with writing:
            model: CleanupModel = app.state.model
            (vector,) = tensor(model, "vector", [item.vector])
            if name not in model.names and len(model.names) >= ITEMS:
                raise HTTPException(422, f"there may be {ITEMS} items at most")
            changed = model.with_item(name, vector)
            try:
                changed.save(path, key)
            except OSError as error:
                raise HTTPException(503, f"the item could not be saved, and nothing changed: {error}") from error
            app.state.model = changed

    @app.get("/items")
    def items() -> list[str]:
        return list(app.state.model.names)

    @app.get("/health")
    def health() -> dict[str, Any]:
        model: CleanupModel = app.state.model
        count, dim = model.items.shape
        return {"status": "ok", "items": count, "dim": dim, "device": str(model.items.device)}

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(prometheus_client.generate_latest(registry), media_type=prometheus_client.CONTENT_TYPE_LATEST)

    return app


def port(text: str) -> int:
    """A number that a port may have."""
    number = int(text)
    if number not in range(65536):
        raise ValueError
    return number


def main(argv: Sequence[str] | None = None) -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--device", default="auto", help="as torch names it; auto: a GPU that works, else the CPU")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=port, default=8000)
    parser.add_argument("--at-once", type=int, default=64, help="connections beyond it are answered by 503")
    options = parser.parse_args(argv)
    key = key_of_environment()
    try:
        app = create_app(options.model, key, options.device)
    except (OSError, RuntimeError, ValueError, torch_hrr.IntegrityError) as error:
        parser.exit(1, f"{parser.prog}: {options.model} cannot be served: {error}\n")
    uvicorn.run(app, host=options.host, port=options.port, limit_concurrency=options.at_once)


if __name__ == "__main__":
    main()
