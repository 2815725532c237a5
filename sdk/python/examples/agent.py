"""An agent registers, gets a person's approval, records three chained events and verifies the proof of the last one.

    pip install './sdk/python[verify]'  (at the root of a clone)
    python agent.py http://127.0.0.1:8080
"""

import sys
from pathlib import Path

from attache_client import Client, Recorded, verify

with Client(sys.argv[1]) as server:
    agent = server.register_agent()
    claim = server.start_claim(agent.claim_token)
    print(f"Open {claim.verification_uri}\nand type {claim.user_code}", flush=True)
    tokens = server.wait_claimed(agent.claim_token, claim)
    print("acting for", server.as_agent(tokens).account_summary()["sections"]["account"]["email"])

    computer = server.register_computer("example")
    code = server.device_code(computer)
    print(f"Open {code.verification_uri_complete}", flush=True)
    print("attached to account", server.wait_attached(code))

    # A restart needs the file to continue the chain; the computer's secret belongs beside it.
    chain = server.chain(computer, "claude-code", state=Path("chain.json"))
    for number in range(3):
        outcome = chain.send("memory.stored", {"memory_id": f"m{number}", "content": f"lesson {number}"})
        print(outcome)
    if isinstance(outcome, Recorded):
        # Pin the key from a source that you trust; this example takes the server's.
        proof = server.as_computer(computer).wait_proof(outcome.event_id)
        key = next(key.vkey for key in server.log_keys() if key.vkey == proof["vkey"])
        verified = verify(proof, key)
        print(f"event {verified.event['seq']} is leaf {verified.leaf_index} of {verified.checkpoint.size}")
