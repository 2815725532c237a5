"""Exports the spans of an agent's work with the OpenTelemetry SDK.

The argument is a JSON object: `endpoint`; `encoding` (`protobuf` or `json`), `gzip`, `service` (service.name), `times` (how often the same spans are
exported) and `text` (a word in every content). Prints the results of the exports as a JSON array.

Ids and times are fixed: the kept spans of crates/hooks/tests/spans come from here too.
"""

import itertools
import json
import sys

from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter as JsonExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as ProtobufExporter
from opentelemetry.exporter.otlp.common.http import Compression as JsonCompression
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Status, StatusCode, set_span_in_context

SETUP = json.loads(sys.argv[1])
TEXT = SETUP.get("text", "canary")
BEGIN = 1_767_225_600_000_000_000


class Counting(IdGenerator):
    def __init__(self):
        self.ids = itertools.count(1)

    def generate_span_id(self):
        return 0x00F0_67AA_0BA9_0000 + next(self.ids)

    def generate_trace_id(self):
        return 0x4BF9_2F35_77B3_4DA6_A3CE_929D_0E0E_0000 + next(self.ids)


def message(role, content):
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])


def spans():
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": SETUP["service"]}), id_generator=Counting())
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("test")
    moments = itertools.count(BEGIN, 250_000_000)

    def work(name, attributes, parent=None, events=(), error=None):
        context = set_span_in_context(parent) if parent else None
        span = tracer.start_span(name, context=context, attributes=attributes, start_time=next(moments))
        for event, members in events:
            span.add_event(event, members, timestamp=BEGIN)
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error))
        if name != "invoke_agent planner":
            span.end(end_time=next(moments))
        return span

    conversation = {"gen_ai.conversation.id": "conv-1"}
    agent = work(
        "invoke_agent planner",
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "openai",
            "gen_ai.agent.name": "planner",
            "gen_ai.input.messages": message("user", f"{TEXT} plan my day"),
            "gen_ai.output.messages": message("assistant", f"{TEXT} rest"),
            **conversation,
        },
    )
    work(
        "chat gpt-5",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-5",
            "gen_ai.response.model": "gpt-5-2026-08-07",
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.usage.input_tokens": 120,
            "gen_ai.usage.output_tokens": 30,
            "gen_ai.system_instructions": json.dumps([{"type": "text", "content": f"{TEXT} instructions"}]),
            "gen_ai.input.messages": message("user", f"{TEXT} question"),
            "gen_ai.output.messages": message("assistant", f"{TEXT} answer"),
            **conversation,
        },
        agent,
    )
    work(
        "chat claude",
        {"gen_ai.operation.name": "chat", "gen_ai.system": "anthropic", "gen_ai.request.model": "claude-sonnet-5"},
        agent,
        [
            ("gen_ai.user.message", {"gen_ai.system": "anthropic", "content": f"{TEXT} old question"}),
            ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": f"{TEXT} old answer"}),
        ],
    )
    work(
        "chat details",
        {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": "gemini-3-pro", **conversation},
        agent,
        [
            (
                "gen_ai.client.inference.operation.details",
                {"gen_ai.input.messages": message("user", f"{TEXT} detail"), "http.url": f"{TEXT}"},
            )
        ],
    )
    work(
        "chat gpt-5",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gpt-5",
            "error.type": "rate_limit_exceeded",
            "gen_ai.input.messages": message("user", f"{TEXT} question"),
            **conversation,
        },
        agent,
        error=f"{TEXT} limit",
    )
    work(
        "execute_tool get_weather",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "get_weather",
            "gen_ai.tool.call.id": "call-1",
            "gen_ai.tool.call.arguments": json.dumps({"place": f"{TEXT} town"}),
            "gen_ai.tool.call.result": json.dumps({"rain": f"{TEXT} drops"}),
            **conversation,
        },
        agent,
    )
    work(
        "execute_tool run",
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "run", **conversation},
        agent,
        [("exception", {"exception.type": "OSError", "exception.message": f"{TEXT} failure"})],
        error="",
    )
    work(
        "execute_tool add_memory",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "mcp__attache__add_memory",
            "gen_ai.tool.call.arguments": json.dumps({"content": f"{TEXT} to remember"}),
            **conversation,
        },
        agent,
    )
    work(
        "search_memory",
        {"gen_ai.operation.name": "search_memory", "gen_ai.memory.query.text": f"{TEXT} query", **conversation},
        agent,
    )
    work(
        "embeddings",
        {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "/srv/models/own", "gen_ai.usage.input_tokens": 4},
        agent,
    )
    work("create_agent", {"gen_ai.operation.name": "create_agent", "gen_ai.agent.name": f"A {TEXT} of two words"})
    work("GET /", {"http.request.method": "GET", "url.full": f"https://example.com/{TEXT}"}, agent)
    work("retrieval", {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": f"{TEXT}"}, agent)
    agent.end(end_time=next(moments))
    return kept.get_finished_spans()


def exporter():
    if SETUP["encoding"] == "json":
        compression = JsonCompression.GZIP if SETUP["gzip"] else JsonCompression.NONE
        return JsonExporter(endpoint=SETUP["endpoint"], compression=compression)
    compression = Compression.Gzip if SETUP["gzip"] else Compression.NoCompression
    return ProtobufExporter(endpoint=SETUP["endpoint"], compression=compression)


finished = spans()
print(json.dumps([exporter().export(finished).name for _ in range(SETUP["times"])]))
