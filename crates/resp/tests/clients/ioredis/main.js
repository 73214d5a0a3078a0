// A program of ioredis at `hanare serve redis`: `main.js PORT SECRET`. It ends with an error at the first result that is not the expected one.
"use strict";

const assert = require("node:assert/strict");
const { Redis } = require("ioredis");

const [port, secret] = process.argv.slice(2);
const host = "127.0.0.1";

async function values(r) {
  assert.equal(await r.ping(), "PONG");
  assert.equal(await r.set("js:a", Buffer.from("one\r\n\0\xff", "latin1")), "OK");
  assert.deepEqual(await r.getBuffer("js:a"), Buffer.from("one\r\n\0\xff", "latin1"));
  assert.equal(await r.get("js:none"), null);
  assert.equal(await r.set("js:a", "x", "NX"), null);
  assert.equal(await r.append("js:b", "12"), 2);
  assert.equal(await r.strlen("js:b"), 2);
  assert.equal(await r.mset({ "js:c": "3", "js:d": "4" }), "OK");
  assert.deepEqual(await r.mget("js:c", "js:none", "js:d"), ["3", null, "4"]);
  assert.equal(await r.exists("js:a", "js:a", "js:none"), 2);
  assert.equal(await r.getdel("js:d"), "4");
  assert.equal(await r.del("js:c", "js:d"), 1);
}

async function countersAndEnds(r) {
  assert.equal(await r.incr("js:n"), 1);
  assert.equal(await r.incrby("js:n", 41), 42);
  assert.equal(await r.decr("js:n"), 41);
  assert.equal(await r.expire("js:n", 100), 1);
  assert.equal(await r.incr("js:n"), 42);
  const left = await r.ttl("js:n");
  assert.ok(left > 90 && left <= 100, `${left}`);
  assert.equal(await r.persist("js:n"), 1);
  assert.equal(await r.ttl("js:n"), -1);
  assert.equal(await r.set("js:short", "x", "PX", 20), "OK");
  const begun = Date.now();
  while ((await r.exists("js:short")) === 1) assert.ok(Date.now() - begun < 30_000);
}

async function scansAndPipelines(r) {
  const pipe = r.pipeline();
  for (let number = 0; number < 500; number += 1) pipe.set(`js:p:${number}`, number);
  const replies = await pipe.incr("js:p:499").exec();
  assert.deepEqual(replies.slice(-2), [[null, "OK"], [null, 500]]);
  const found = new Set();
  for await (const keys of r.scanStream({ match: "js:p:*", count: 50 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 500);
  // An error of one command of a pipeline leaves the others.
  const [before, wrong, after] = await r.pipeline().get("js:p:7").incr("js:a").get("js:p:8").exec();
  assert.deepEqual([before, after], [[null, "7"], [null, "8"]]);
  assert.equal(wrong[0].message, "ERR value is not an integer or out of range");
}

async function refusals(r) {
  await assert.rejects(r.call("GET"), { message: "ERR wrong number of arguments for 'get' command" });
  await assert.rejects(r.lpush("js:list", "a"), { message: "ERR unknown command 'lpush', with args beginning with: 'js:list' 'a' " });
  await assert.rejects(r.call("SET", "js:a", "b", "NX", "XX"), { message: "ERR syntax error" });
}

async function main() {
  const r = new Redis({ host, port, username: "default", password: secret });
  for (const step of [values, countersAndEnds, scansAndPipelines, refusals]) await step(r);
  assert.equal(await r.flushall(), "OK");
  assert.equal(await r.dbsize(), 0);
  await r.quit();
  const wrong = new Redis({ host, port, username: "default", password: `x${secret}`, retryStrategy: null });
  const error = await new Promise((told) => wrong.once("error", told));
  assert.match(error.message, /^WRONGPASS invalid username-password pair or user is disabled\.$/);
  wrong.on("error", () => {}).disconnect();
  console.log("ioredis: all as expected");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
