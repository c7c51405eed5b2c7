"""A language server that answers with what it was sent.

`initialize`, `shutdown` and `exit` are as the protocol has them; `test/echo` answers its parameters, `test/facts` the
process's working directory, mask and one variable, `test/exit` ends the process. With `--tree` it first leaves two
grandchildren that moved to sessions of their own, have no parent any more and ignore SIGTERM, one of them with an empty
environment; their ids are in `test/facts`.
"""

import json
import os
import shutil
import signal
import sys


def leave_tree(environment):
    """Leaves a `sleep` in a session of its own, without a parent, that ignores SIGTERM; its id."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        # What is ignored stays so in the program that takes this one's place.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        nothing = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.write(writer, str(os.getpid()).encode())
        # The pipe ends when the other program has taken over, so nobody sees this one.
        os.execve(shutil.which("sleep"), ["sleep", "3600"], environment)
    os.close(writer)
    text = b""
    while piece := os.read(reader, 20):
        text += piece
    os.close(reader)
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


def facts(orphan, bare):
    mask = os.umask(0)
    os.umask(mask)
    return {
        "pid": os.getpid(),
        "orphan": orphan,
        "bare": bare,
        "cwd": os.getcwd(),
        "umask": mask,
        "variable": os.environb.get(b"ECHO_VARIABLE", b"").hex(),
    }


def main():
    orphan, bare = None, None
    if "--tree" in sys.argv:
        orphan, bare = leave_tree(os.environ), leave_tree({})
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
            "test/facts": lambda: facts(orphan, bare),
            "test/exit": lambda: os._exit(3),
        }.get(method, lambda: None)()
        write({"jsonrpc": "2.0", "id": message["id"], "result": result})


main()
