"""`hanare serve redis` before a client library of Redis, a store beside it, and clients that mean no good."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Iterator

import pytest
import redis
from conftest import as_user

import hanare
from hanare import _node

Serve = Callable[..., int]


@pytest.fixture
def serve(nodes: _node.Nodes, pool: hanare.Pool, name: str) -> Iterator[Serve]:
    """Start a service on a store of the test's name; return its port."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> int:
        command = [_node.program(), "serve", "redis", "--store", name, *options]
        if "--socket" not in options and "--listen" not in options:
            command += ["--listen", "127.0.0.1:0"]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "HANARE_NODE": nodes.sockets[0]}))
        assert started[-1].stdout is not None
        line = started[-1].stdout.readline()
        assert line.startswith("ready"), line
        return int(line.rsplit(":", 1)[1]) if "--socket" not in options else 0

    yield start
    for process in started:
        process.kill()
        process.wait()
    if pool.exists(name):
        pool.store(name).destroy()


def client(port: int, **options: Any) -> redis.Redis:
    return redis.Redis(port=port, **options)


@pytest.mark.parametrize("protocol", [2, 3])
def test_strings_as_a_client_knows_them(serve: Serve, pool: hanare.Pool, name: str, protocol: int) -> None:
    r = client(serve("--bytes", "8MiB"), protocol=protocol)
    assert r.ping() and r.echo("a b") == b"a b" and r.get("none") is None
    assert r.set("a", b"\x00\r\n\xff") and r.get("a") == b"\x00\r\n\xff" == pool.store(name).get(b"a")
    pool.store(name).put(b"from Python", b"1")
    assert r.get("from Python") == b"1" and r.exists("a", "a", "none") == 2 and r.strlen("a") == 4 and r.strlen("none") == 0
    assert r.set("a", "x", nx=True) is None and r.set("b", "y", xx=True) is None and r.set("b", "y", nx=True) and r.set("b", "z", xx=True)
    assert r.set("b", "w", get=True) == b"z" and r.set("c", "1", get=True) is None and r.setnx("c", "2") is False and r.setnx("d", "4")
    assert r.mset({"m1": "1", "m2": b"\xff" * 100_000}) and r.mget("m1", "none", "m2") == [b"1", None, b"\xff" * 100_000]
    assert r.append("m1", "23") == 3 and r.append("new", "x") == 1 and r.get("m1") == b"123"
    assert r.incr("m1") == 124 and r.incrby("n", 5) == 5 and r.decr("n") == 4 and r.decrby("n", 10) == -6 and r.get("n") == b"-6"
    assert r.getdel("n") == b"-6" and r.getdel("n") is None and r.type("a") == b"string" and r.type("n") == b"none"
    assert r.delete("a", "b", "none") == 2 and r.unlink("c") == 1 and r.dbsize() == 5
    for wrong, words in (
        (lambda: r.incr("m2"), "value is not an integer or out of range"),
        (lambda: r.incrby("big", 2**63 - 1) and r.incr("big"), "increment or decrement would overflow"),
        (lambda: r.execute_command("INCRBY", "m1", "1e3"), "value is not an integer or out of range"),
        (lambda: r.lpush("list", "a"), "unknown command 'LPUSH', with args beginning with: 'list' 'a'"),
        (lambda: r.execute_command("GET"), "wrong number of arguments for 'get' command"),
        (lambda: r.execute_command("SET", "a", "b", "NX", "XX"), "syntax error"),
        (lambda: r.set("a", "b", ex=0), "invalid expire time in 'set' command"),
        (lambda: r.execute_command("SELECT", "1"), "DB index is out of range"),
        (lambda: r.execute_command("AUTH", "x"), "called without any password configured"),
    ):
        with pytest.raises(redis.RedisError, match=words):
            wrong()


def test_keys_end(serve: Serve) -> None:
    r = client(serve())
    r.set("short", "1", px=1)
    r.set("long", "1", ex=100)
    r.setex("s", 50, "1")
    r.psetex("p", 50_000, "1")
    time.sleep(0.01)
    assert r.get("short") is None and r.ttl("short") == -2 and 99 <= r.ttl("long") <= 100 and 49_000 < r.pttl("p") <= 50_000
    assert r.set("long", "2", keepttl=True) and r.ttl("long") > 90 and r.set("long", "3") and r.ttl("long") == -1 == r.pttl("long")
    assert r.expire("long", 10) and r.ttl("long") in (9, 10) and not r.expire("none", 10) and r.persist("long") and not r.persist("long")
    assert r.expire("long", 10, nx=True) and not r.expire("long", 20, nx=True) and not r.expire("long", 5, gt=True) and r.expire("long", 5, lt=True)
    assert r.getex("s", ex=500) == b"1" and r.ttl("s") > 400 and r.getex("s", persist=True) == b"1" and r.ttl("s") == -1
    assert r.incr("s") == 2 and r.pexpire("s", 100_000) and r.incr("s") == 3 and r.ttl("s") in (99, 100)
    assert r.expire("s", -1) and r.get("s") is None
    assert r.set("at", "1", exat=int(time.time()) + 30) and 28 <= r.ttl("at") <= 30


def test_scans_and_pipelines(serve: Serve) -> None:
    r = client(serve("--bytes", "16MiB"))
    with r.pipeline(transaction=False) as pipe:
        for number in range(3000):
            pipe.set(f"key:{number}", number)
        assert pipe.execute() == [True] * 3000
    assert {int(key[4:]) for key in r.scan_iter(count=100)} == set(range(3000)) and r.dbsize() == 3000
    assert sorted(r.scan_iter("key:12?[05]")) == sorted(f"key:12{a}{b}".encode() for a in range(10) for b in (0, 5))
    with r.pipeline(transaction=False) as pipe:
        for number in range(3000):
            pipe.incr(f"key:{number}")
        assert pipe.execute() == list(range(1, 3001))
    assert list(r.scan_iter(_type="list")) == [] and r.info()["redis_mode"] == "standalone" and r.command_count() == 45
    assert r.client_setname("me") and r.client_getname() == "me" and r.client_id() > 0
    with pytest.raises(redis.ResponseError, match="invalid cursor"):
        r.execute_command("SCAN", "x")


def test_counters_of_many_clients_lose_nothing(serve: Serve) -> None:
    port = serve()

    def count() -> None:
        r = client(port)
        for _ in range(200):
            r.incr("n")

    threads = [threading.Thread(target=count) for _ in range(5)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert client(port).get("n") == b"1000"


def test_a_full_store_says_so_and_else_keys_leave(serve: Serve, pool: hanare.Pool, name: str) -> None:
    r = client(serve("--bytes", "1MiB", "--evict", "ttl"))
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        for number in range(1000):
            r.set(number, bytes(4000))
    assert r.dbsize() > 200 and r.get("0") == bytes(4000)
    pool.store(name).destroy()
    r = client(serve("--bytes", "1MiB"))
    for number in range(1000):
        assert r.set(number, bytes(4000))
    assert 150 < r.dbsize() < 300 and r.get("999") == bytes(4000)
    with pytest.raises(redis.ResponseError, match="string exceeds maximum allowed size"):
        r.set("long", bytes(2 << 20))


def test_a_secret_is_asked_for(serve: Serve, tmp_path: Path, name: str, nodes: _node.Nodes) -> None:
    secret = tmp_path / "secret"
    secret.write_text("open sesame\n")
    secret.chmod(0o600)
    port = serve("--secret", str(secret), "--listen", "0.0.0.0:0")
    for options in ({}, {"password": "open sesam"}, {"username": "root", "password": "open sesame"}):
        with pytest.raises((redis.AuthenticationError, redis.ResponseError)):
            client(port, **options).get("a")
    for protocol in (2, 3):
        assert client(port, password="open sesame", protocol=protocol).set("a", "1")
    assert client(port, username="default", password="open sesame").get("a") == b"1"
    # A stranger sends no long words, and what it sends is not carried out.
    for sent in (b"*1\r\n$20000\r\n", b"*11\r\n", b"GET a\r\n", b"FLUSHALL\r\n"):
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.settimeout(5)
            raw.sendall(sent)
            assert raw.recv(1000).startswith((b"-ERR Protocol error: unauthenticated", b"-NOAUTH"))
    for options in (["--listen", "0.0.0.0:0"], ["--secret", str(tmp_path / "none")]):
        command = [_node.program(), "serve", "redis", "--store", name, *options]
        refused = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HANARE_NODE": nodes.sockets[0]}, timeout=20)
        assert refused.returncode != 0 and ("--secret" in refused.stderr or "secret" in refused.stderr)
    secret.chmod(0o644)
    command = [_node.program(), "serve", "redis", "--store", name, "--secret", str(secret), "--listen", "127.0.0.1:0"]
    refused = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HANARE_NODE": nodes.sockets[0]}, timeout=20)
    assert refused.returncode != 0 and "chmod 600" in refused.stderr


def test_another_user_of_this_host_is_refused(serve: Serve) -> None:
    def ask(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.settimeout(5)
            try:
                raw.sendall(b"PING\r\n")
                return raw.recv(100)
            except (ConnectionResetError, BrokenPipeError):
                return b""

    port = serve()
    assert as_user(65534, ask, port) == b"" and ask(port) == b"+PONG\r\n"
    assert as_user(65534, ask, serve("--anyone")) == b"+PONG\r\n"


def test_a_unix_socket_is_this_users(serve: Serve, tmp_path: Path) -> None:
    path = str(tmp_path / "redis.sock")
    serve("--socket", path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert redis.Redis(unix_socket_path=path).set("a", "1")


def test_slow_and_hostile_clients_hold_nobody_up(serve: Serve) -> None:
    port = serve("--bytes", "64MiB", "--clients", "20")
    r = client(port)
    r.set("long", bytes(8 << 20))
    raws = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
    # They begin commands and do not go on, or ask for much and do not read it.
    for number, raw in enumerate(raws):
        raw.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$60000000\r\nxx" if number % 2 else b"GET long\r\n" * 100)
    begun = time.monotonic()
    for number in range(200):
        assert r.set(number, "1") and r.get(number) == b"1"
    assert time.monotonic() - begun < 10
    for sent in (b"*9999999999\r\n", b"*1\r\n$99999999999\r\n", b"*1\r\n!\r\n", b"\x00" * 70_000):
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.settimeout(5)
            try:
                raw.sendall(sent)
                assert raw.recv(1000).startswith(b"-ERR")
                assert raw.recv(1000) == b""
            except ConnectionResetError:
                pass
    more = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    assert more[-1].recv(100) == b"-ERR max number of clients reached\r\n"
    [raw.close() for raw in (*raws, *more)]
    assert r.get("5") == b"1"
