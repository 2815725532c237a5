"""A program adds two notes with progress, and searches them.

    ATTACHE_KEY=ak_... python knowledge.py http://127.0.0.1:8080
"""

import asyncio
import os
import sys

from attache_client import AsyncKnowledge, ItemError, Progress


async def main() -> None:
    async with AsyncKnowledge(sys.argv[1], os.environ["ATTACHE_KEY"]) as knowledge:
        space = await knowledge.create_space("Examples")
        batch = await knowledge.add(
            contents=[
                {"title": "Harbour", "content": "The harbour master keeps the tide tables of the north pier."},
                {"title": "Bakery", "content": "The bakery on the square sells rye bread on Thursdays."},
            ],
            spaces=[space.id],
        )
        async for message in batch:
            if isinstance(message, Progress):
                print(f"{message.processed} of {message.total}")
            elif isinstance(message, ItemError):
                print(f"{message.title or message.url}: {message.message}")
        for result in await knowledge.search("When can I buy bread?", spaces=[space.id], limit=1):
            print(f"{result.similarity:.2f} {result.title}: {result.content}")


asyncio.run(main())
