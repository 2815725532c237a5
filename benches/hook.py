"""Wall and CPU time of `attache hook`: python3 benches/hook.py target/release/attache [runs]

Each case has a profile of its own whose server does not listen. The calls run one after another, as an agent runs its hooks.
"""

import json
import os
import signal
import sys
import tempfile
import time

PROFILE = """url = "http://127.0.0.1:9"
[machine]
user_cuid = "tz4a98xxat96iws9zmbrgj3a"
machine_uuid = "019b76da-a800-7274-8acf-2e56e162ebd9"
secret = "msk_0123456789012345678901234567890123456789012"
"""


def payload(size):
    return json.dumps({
        "session_id": "s", "cwd": "/home/ada/engine", "hook_event_name": "PostToolUse", "tool_name": "Bash",
        "tool_use_id": "t", "tool_input": {"command": "cargo test"}, "tool_response": {"stdout": "x" * size},
    }).encode()


def folder(home):
    path = os.path.join(home, ".config/attache/default")
    os.makedirs(path, mode=0o700)
    with open(os.path.join(path, "profile.toml"), "w") as file:
        os.chmod(file.fileno(), 0o600)
        file.write(PROFILE)
    return os.path.join(path, "hooks")


def call(program, home, data):
    """One call: seconds of wall time, seconds of CPU time."""
    with tempfile.TemporaryFile() as stdin:
        stdin.write(data)
        stdin.seek(0)
        begin = time.perf_counter()
        child = os.posix_spawn(program, [program, "hook", "claude-code"], {"HOME": home}, file_actions=[
            (os.POSIX_SPAWN_DUP2, stdin.fileno(), 0), (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
        _, status, used = os.wait4(child, 0)
        wall = time.perf_counter() - begin
    assert status == 0, status
    return wall, used.ru_utime + used.ru_stime


def case(name, program, runs, size, spooled):
    with tempfile.TemporaryDirectory() as home:
        hooks = folder(home)
        call(program, home, payload(10))
        spool = os.path.join(hooks, "claude-code.spool")
        time.sleep(1)
        if spooled:
            source = spool if os.path.exists(spool) else os.path.join(hooks, "claude-code.sending")
            with open(source, "rb") as file:
                lines = file.read().splitlines(keepends=True)
            with open(spool, "ab") as file:
                file.write(lines[0] if not os.path.getsize(spool) else b"")
                file.writelines([lines[-1]] * spooled)
        times = sorted(call(program, home, payload(size)) for _ in range(runs))
        walls, cpus = [wall for wall, _ in times], sorted(cpu for _, cpu in times)
        at = lambda values, share: f"{1000 * values[min(len(values) - 1, int(share * len(values)))]:.1f}"
        print(f"| {name} | {at(walls, .5)} | {at(walls, .99)} | {at(walls, 1)} | {at(cpus, .5)} |", flush=True)
        with open(os.path.join(hooks, "sender.lock")) as file:
            sender = int(file.read() or 0)
        if sender:
            os.kill(sender, signal.SIGTERM)
            time.sleep(.2)


def main():
    program = os.path.abspath(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    print(f"{runs} calls each, ms: wall median, p99, worst; CPU median")
    case("payload of 200 bytes", program, runs, 10, 0)
    case("payload of 100 KB", program, runs, 100_000, 0)
    case("payload of 1 MB", program, runs, 1_000_000, 0)
    case("100,000 events in the spool", program, runs, 10, 100_000)


main()
