# A real mail server for tests: aiosmtpd, which takes every mail and tells it on standard output.
#
# Argument: {"port": 0, "user": null, "password": null} as JSON. The first line of standard output is the port, each further one a
# mail. Mails to nobody@… are refused for good, the first to busy@… for now. The end of standard input is the end of this process,
# so that it never outlives its test.

import asyncio
import json
import os
import sys

from aiosmtpd.smtp import SMTP, AuthResult

setup = json.loads(sys.argv[1])
deferred = set()


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("nobody@"):
            return f"550 5.1.1 <{address}> is not known here"
        if address.startswith("busy@") and address not in deferred:
            deferred.add(address)
            return f"451 4.7.1 <{address}> come back later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "data": envelope.content.decode("utf-8", "replace"),
            "user": session.auth_data,
        }
        print(json.dumps(mail), flush=True)
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    right = data.login.decode() == setup["user"] and data.password.decode() == setup["password"]
    return AuthResult(success=right, auth_data=data.login.decode() if right else None)


async def main():
    asks = setup["user"] is not None
    make = lambda: SMTP(
        Handler(), enable_SMTPUTF8=True, auth_require_tls=False, auth_required=asks, authenticator=authenticate if asks else None
    )
    loop = asyncio.get_running_loop()
    server = await loop.create_server(make, "127.0.0.1", setup["port"])
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    os._exit(0)


asyncio.run(main())
