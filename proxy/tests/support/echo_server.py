"""A language server that answers with what it was sent.

`initialize`, `shutdown` and `exit` are as the protocol has them; `test/echo` answers its parameters, `test/facts` the
process's working directory, mask and one variable, `test/exit` ends the process. With `--tree` it first leaves a
grandchild that moved to a session of its own, has no parent any more and ignores SIGTERM; its id is in `test/facts`.
"""

import json
import os
import signal
import sys


def leave_tree():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid != 0:
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        nothing = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.write(writer, str(os.getpid()).encode())
        os.close(writer)
        while True:
            signal.pause()
    os.close(writer)
    text = os.read(reader, 20)
    os.wait()
    return int(text)


def read():
    length = 0
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            return None
        if line == b"\r\n":
            return json.loads(sys.stdin.buffer.read(length))
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)


def write(message):
    body = json.dumps(message).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def facts(orphan):
    mask = os.umask(0)
    os.umask(mask)
    return {
        "pid": os.getpid(),
        "orphan": orphan,
        "cwd": os.getcwd(),
        "umask": mask,
        "variable": os.environb.get(b"ECHO_VARIABLE", b"").hex(),
    }


def main():
    orphan = leave_tree() if "--tree" in sys.argv else None
    if "--stderr" in sys.argv:
        print("the server speaks", file=sys.stderr, flush=True)
    while (message := read()) is not None:
        method = message.get("method")
        if method == "exit":
            break
        if "id" not in message or method is None:
            continue
        result = {
            "initialize": lambda: {"capabilities": {}},
            "test/echo": lambda: message.get("params"),
            "test/facts": lambda: facts(orphan),
            "test/exit": lambda: os._exit(3),
        }.get(method, lambda: None)()
        write({"jsonrpc": "2.0", "id": message["id"], "result": result})


main()
