# Verifies signatures with the library of Standard Webhooks, and refuses changed ones.
import json
import sys

from standardwebhooks import Webhook

given = json.loads(sys.argv[1])
verified = 0
for secret in given["secrets"]:
    webhook = Webhook(secret)
    for request in given["requests"]:
        headers = {"webhook-" + name: request[name] for name in ("id", "timestamp", "signature")}
        webhook.verify(request["body"], headers)
        for changed in (request["body"] + " ", request["body"].replace('"type"', '"typo"')):
            try:
                webhook.verify(changed, headers)
            except Exception:
                continue
            raise AssertionError("a changed body was accepted")
        verified += 1
print(json.dumps(verified))
