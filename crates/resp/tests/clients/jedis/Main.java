// A program of jedis at `hanare serve redis`: `Main PORT SECRET`. It ends with an error at the first result that is not the expected one.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

public class Main {
    static void is(String what, Object value, Object wanted) {
        if (!Objects.deepEquals(value, wanted)) {
            throw new AssertionError(what + ": " + value + ", not " + wanted);
        }
    }

    /** Expects an error in Redis' words. */
    static void refused(Runnable call, String wanted) {
        try {
            call.run();
        } catch (JedisDataException error) {
            is("error", error.getMessage(), wanted);
            return;
        }
        throw new AssertionError("not refused: " + wanted);
    }

    static void values(Jedis r) {
        byte[] bytes = {'1', '\r', '\n', 0, -1};
        is("ping", r.ping(), "PONG");
        is("set", r.set("java:a".getBytes(), bytes), "OK");
        is("get", r.get("java:a".getBytes()), bytes);
        is("none", r.get("java:none"), null);
        is("set NX", r.set("java:a", "x", SetParams.setParams().nx()), null);
        is("append", r.append("java:b", "12"), 2L);
        is("strlen", r.strlen("java:b"), 2L);
        is("mset", r.mset("java:c", "3", "java:d", "4"), "OK");
        is("mget", r.mget("java:c", "java:none", "java:d"), Arrays.asList("3", null, "4"));
        is("exists", r.exists("java:a", "java:a", "java:none"), 2L);
        is("getdel", r.getDel("java:d"), "4");
        is("del", r.del("java:c", "java:d"), 1L);
    }

    static void countersAndEnds(Jedis r) throws InterruptedException {
        is("incr", r.incr("java:n"), 1L);
        is("incrby", r.incrBy("java:n", 41), 42L);
        is("decr", r.decr("java:n"), 41L);
        is("expire", r.expire("java:n", 100), 1L);
        is("incr with an end", r.incr("java:n"), 42L);
        is("ttl", r.ttl("java:n") > 90 && r.ttl("java:n") <= 100, true);
        is("persist", r.persist("java:n"), 1L);
        is("no end", r.ttl("java:n"), -1L);
        is("set with an end", r.set("java:short", "x", SetParams.setParams().px(20)), "OK");
        for (long begun = System.nanoTime(); r.exists("java:short"); Thread.sleep(5)) {
            is("a key that ends", System.nanoTime() - begun < 30_000_000_000L, true);
        }
    }

    static void scansAndPipelines(Jedis r) {
        Pipeline pipe = r.pipelined();
        for (int number = 0; number < 500; number++) {
            pipe.set("java:p:" + number, "" + number);
        }
        Response<Long> last = pipe.incr("java:p:499");
        is("pipeline", pipe.syncAndReturnAll().size(), 501);
        is("its last", last.get(), 500L);
        Set<String> found = new HashSet<>();
        ScanParams some = new ScanParams().match("java:p:*").count(50);
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> part = r.scan(cursor, some);
            found.addAll(part.getResult());
            cursor = part.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        is("scan", found.size(), 500);
        // An error of one command of a pipeline leaves the others.
        pipe = r.pipelined();
        Response<String> before = pipe.get("java:p:7");
        Response<Long> wrong = pipe.incr("java:a");
        Response<String> after = pipe.get("java:p:8");
        pipe.sync();
        refused(wrong::get, "ERR value is not an integer or out of range");
        is("before and after", List.of(before.get(), after.get()), List.of("7", "8"));
        List<String> keys = new ArrayList<>(found);
        is("del", r.del(keys.toArray(new String[0])), 500L);
        is("unlink", r.unlink("java:a", "java:b", "java:n"), 3L);
    }

    static void refusals(Jedis r) {
        refused(() -> r.sendCommand(Protocol.Command.GET), "ERR wrong number of arguments for 'get' command");
        refused(() -> r.lpush("java:list", "a"), "ERR unknown command 'LPUSH', with args beginning with: 'java:list' 'a' ");
        refused(() -> r.sendCommand(Protocol.Command.SET, "java:a", "b", "NX", "XX"), "ERR syntax error");
    }

    public static void main(String[] words) throws InterruptedException {
        HostAndPort address = new HostAndPort("127.0.0.1", Integer.parseInt(words[0]));
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            DefaultJedisClientConfig.Builder config = DefaultJedisClientConfig.builder().protocol(protocol);
            try (Jedis r = new Jedis(address, config.user("default").password(words[1]).build())) {
                values(r);
                countersAndEnds(r);
                scansAndPipelines(r);
                refusals(r);
            }
        }
        try (Jedis r = new Jedis(address)) {
            refused(() -> r.get("java:a"), "NOAUTH Authentication required.");
            refused(() -> r.auth("default", "x" + words[1]), "WRONGPASS invalid username-password pair or user is disabled.");
            is("auth", r.auth("default", words[1]), "OK");
            is("get", r.get("java:a"), null);
        }
        System.out.println("jedis: all as expected");
    }
}
