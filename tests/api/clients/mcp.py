"""The official client of MCP (PyPI `mcp`, second version): connects, lists, calls. Argument: the endpoint. Prints what it saw as JSON."""

import asyncio
import json
import sys

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError


async def main(url):
    seen = {}
    for mode in ("auto", "legacy"):
        async with Client(url, mode=mode) as client:
            tools = await client.list_tools()
            called = await client.call_tool("about_service", {})
            try:
                await client.call_tool("no_such_tool", {})
                unknown = None
            except MCPError as error:
                unknown = error.code
            seen[mode] = {
                "version": client.protocol_version,
                "server": client.server_info.name,
                "tools": [tool.name for tool in tools.tools],
                "text": called.content[0].text,
                "unknown": unknown,
            }
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1]))
