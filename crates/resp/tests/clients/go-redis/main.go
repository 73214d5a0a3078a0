// A program of go-redis at `hanare serve redis`: `main PORT SECRET`. It ends with an error at the first result that is not the expected one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

// must returns a value of a call that may not fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func is[T comparable](what string, value, wanted T) {
	if value != wanted {
		panic(fmt.Sprintf("%s: %v, not %v", what, value, wanted))
	}
}

// refused expects an error in Redis' words.
func refused(err error, wanted string) {
	if err == nil || err.Error() != wanted {
		panic(fmt.Sprintf("%v, not %s", err, wanted))
	}
}

func values(r *redis.Client) {
	is("ping", must(r.Ping(ctx).Result()), "PONG")
	is("set", must(r.Set(ctx, "go:a", "one\r\n\x00\xff", 0).Result()), "OK")
	is("get", must(r.Get(ctx, "go:a").Result()), "one\r\n\x00\xff")
	is("none", errors.Is(r.Get(ctx, "go:none").Err(), redis.Nil), true)
	is("setnx", must(r.SetNX(ctx, "go:a", "x", 0).Result()), false)
	is("append", must(r.Append(ctx, "go:b", "12").Result()), 2)
	is("strlen", must(r.StrLen(ctx, "go:b").Result()), 2)
	is("mset", must(r.MSet(ctx, "go:c", "3", "go:d", "4").Result()), "OK")
	got := must(r.MGet(ctx, "go:c", "go:none", "go:d").Result())
	is("mget", fmt.Sprint(got), "[3 <nil> 4]")
	is("exists", must(r.Exists(ctx, "go:a", "go:a", "go:none").Result()), 2)
	is("getdel", must(r.GetDel(ctx, "go:d").Result()), "4")
	is("del", must(r.Del(ctx, "go:c", "go:d").Result()), 1)
}

func countersAndEnds(r *redis.Client) {
	is("incr", must(r.Incr(ctx, "go:n").Result()), 1)
	is("incrby", must(r.IncrBy(ctx, "go:n", 41).Result()), 42)
	is("decr", must(r.Decr(ctx, "go:n").Result()), 41)
	is("expire", must(r.Expire(ctx, "go:n", 100*time.Second).Result()), true)
	is("incr with an end", must(r.Incr(ctx, "go:n").Result()), 42)
	left := must(r.TTL(ctx, "go:n").Result())
	is("ttl", left > 90*time.Second && left <= 100*time.Second, true)
	is("persist", must(r.Persist(ctx, "go:n").Result()), true)
	is("no end", must(r.TTL(ctx, "go:n").Result()), -1)
	is("set with an end", must(r.Set(ctx, "go:short", "x", 20*time.Millisecond).Result()), "OK")
	for begun := time.Now(); must(r.Exists(ctx, "go:short").Result()) == 1; time.Sleep(5 * time.Millisecond) {
		is("a key that ends", time.Since(begun) < 30*time.Second, true)
	}
}

func scansAndPipelines(r *redis.Client) {
	pipe := r.Pipeline()
	for number := 0; number < 500; number++ {
		pipe.Set(ctx, fmt.Sprintf("go:p:%d", number), number, 0)
	}
	last := pipe.Incr(ctx, "go:p:499")
	is("pipeline", len(must(pipe.Exec(ctx))), 501)
	is("its last", last.Val(), 500)
	found := map[string]bool{}
	for all := r.Scan(ctx, 0, "go:p:*", 50).Iterator(); all.Next(ctx); {
		found[all.Val()] = true
	}
	is("scan", len(found), 500)
	// An error of one command of a pipeline leaves the others.
	pipe = r.Pipeline()
	before, wrong, after := pipe.Get(ctx, "go:p:7"), pipe.Incr(ctx, "go:a"), pipe.Get(ctx, "go:p:8")
	_, err := pipe.Exec(ctx)
	refused(err, "ERR value is not an integer or out of range")
	refused(wrong.Err(), "ERR value is not an integer or out of range")
	is("before", before.Val(), "7")
	is("after", after.Val(), "8")
}

func refusals(r *redis.Client) {
	refused(r.Do(ctx, "GET").Err(), "ERR wrong number of arguments for 'get' command")
	refused(r.LPush(ctx, "go:list", "a").Err(), "ERR unknown command 'lpush', with args beginning with: 'go:list' 'a' ")
	refused(r.Do(ctx, "SET", "go:a", "b", "NX", "XX").Err(), "ERR syntax error")
}

func main() {
	address, secret := "127.0.0.1:"+os.Args[1], os.Args[2]
	for _, protocol := range []int{2, 3} {
		r := redis.NewClient(&redis.Options{Addr: address, Username: "default", Password: secret, Protocol: protocol})
		for _, step := range []func(*redis.Client){values, countersAndEnds, scansAndPipelines, refusals} {
			step(r)
		}
		must(r.FlushAll(ctx).Result())
		r.Close()
	}
	wrong := redis.NewClient(&redis.Options{Addr: address, Username: "default", Password: "x" + secret})
	refused(wrong.Get(ctx, "go:a").Err(), "WRONGPASS invalid username-password pair or user is disabled.")
	none := redis.NewClient(&redis.Options{Addr: address})
	refused(none.Get(ctx, "go:a").Err(), "NOAUTH Authentication required.")
	fmt.Println("go-redis: all as expected")
}
