"""The official client of MCP (PyPI `mcp`, first version): connects, lists, calls. Argument: the endpoint. Prints what it saw as JSON."""

import asyncio
import json
import sys

from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamablehttp_client


async def main(url):
    async with streamablehttp_client(url) as (read, write, session_id):
        async with ClientSession(read, write) as session:
            begun = await session.initialize()
            await session.send_ping()
            tools = await session.list_tools()
            called = await session.call_tool("about_service", {})
            try:
                await session.call_tool("no_such_tool", {})
                unknown = None
            except McpError as error:
                unknown = error.error.code
            seen = {
                "version": begun.protocolVersion,
                "server": begun.serverInfo.name,
                "session": session_id(),
                "tools": [tool.name for tool in tools.tools],
                "text": called.content[0].text,
                "unknown": unknown,
            }
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1]))
