"""The official client of A2A (PyPI `a2a-sdk`): resolves the card, sends a message. Argument: the base URL. Prints what it saw as JSON."""

import asyncio
import json
import sys

from a2a.client.client_factory import create_client
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest


async def main(url):
    client = await create_client(url)
    hello = Message(message_id="1", role=Role.ROLE_USER, parts=[Part(text="hello")])
    answers = [answer async for answer in client.send_message(SendMessageRequest(message=hello))]
    card = client._card
    seen = {
        "card": card.name,
        "streaming": card.capabilities.streaming,
        "interfaces": [[each.url, each.protocol_binding, each.protocol_version] for each in card.supported_interfaces],
        "answers": len(answers),
        "role": Role.Name(answers[0].message.role),
        "text": answers[0].message.parts[0].text,
    }
    await client.close()
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1]))
