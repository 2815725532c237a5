"""The official client of MCP (PyPI `mcp`, second version) calls every tool. Argument: a server as JSON, either `{"url", "key"}` or
`{"command", "environment", "folder"}`. Prints what it saw as JSON."""

import asyncio
import json
import sys

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError


def connect(server):
    if "url" in server:
        headers = {"Authorization": f"Bearer {server['key']}"}
        return streamable_http_client(server["url"], http_client=httpx2.AsyncClient(headers=headers))
    parameters = StdioServerParameters(
        command=server["command"], args=["mcp"], env=server["environment"], cwd=server["folder"]
    )
    return stdio_client(parameters)


async def failing(call):
    try:
        result = await call
        return {"is_error": result.is_error, "text": result.content[0].text}
    except MCPError as error:
        return {"code": error.code}


async def walk(server, mode):
    async with Client(connect(server), mode=mode) as client:
        seen = {
            "version": client.protocol_version,
            "server": client.server_info.name,
            "tools": [tool.name for tool in (await client.list_tools()).tools],
        }

        async def call(name, **arguments):
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result
            return result.structured_content

        note = "The ferry to Juist leaves with the tide, so its timetable changes each day."
        seen["added"] = await call("add_memory", content=note, title="Ferry")
        seen["found"] = await call("search_memory", query="when does the boat sail?", limit=1)
        seen["spaces"] = await call("list_spaces")
        memory = seen["added"]["id"]
        seen["resources"] = [str(item.uri) for item in (await client.list_resources()).resources]
        templates = (await client.list_resource_templates()).resource_templates
        seen["templates"] = [item.uri_template for item in templates]
        read = await client.read_resource(f"attache://memories/{memory}")
        seen["read"] = read.contents[0].text
        listed = await client.read_resource("attache://spaces")
        seen["read_spaces"] = json.loads(listed.contents[0].text)
        if "record_event" in seen["tools"]:
            payload = {"skill": "search", "succeeded": True, "duration_ms": 12}
            seen["recorded"] = await call("record_event", event_type="skill.invoked", payload=payload)
            seen["consent"] = await call("check_consent", lane="skill")
            seen["activity"] = await call("my_activity", limit=5)
            seen["bad_event"] = await failing(client.call_tool("record_event", {"event_type": "no.such"}))
        seen["forgotten"] = await call("forget_memory", id=memory)
        seen["gone"] = await failing(client.read_resource(f"attache://memories/{memory}"))
        seen["wrong"] = await failing(client.call_tool("search_memory", {"queri": "x"}))
        seen["unknown"] = await failing(client.call_tool("no_such_tool", {}))
        return seen


async def main(server):
    print(json.dumps({mode: await walk(server, mode) for mode in ("auto", "legacy")}))


asyncio.run(main(json.loads(sys.argv[1])))
