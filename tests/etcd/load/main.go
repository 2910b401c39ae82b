// Load on an etcd cluster: puts, or linearizable gets, of one value on many connections.
//
//	load put|get|fill -to HOST:PORT,... [-connections N] [-seconds S] [-items N] [-bytes N]
//
// Prints one line of JSON, as `fader-bench drive` does. Each connection has its own client, as each of
// Fader's is one of its own, and sends its next request when it has the answer to the last.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

var (
	to          = flag.String("to", "", "members, of which connections take one after the other")
	connections = flag.Int("connections", 64, "clients, each with a connection of its own")
	seconds     = flag.Float64("seconds", 5, "for how long")
	items       = flag.Int("items", 1000, "keys")
	bytes       = flag.Int("bytes", 500, "bytes of a value")
)

func main() {
	if len(os.Args) < 2 {
		fail("usage: load put|get|fill -to HOST:PORT,...")
	}
	operation := os.Args[1]
	if err := flag.CommandLine.Parse(os.Args[2:]); err != nil || *to == "" {
		fail("members are missing: -to")
	}
	if operation == "fill" {
		client := connect(0)
		for number := 0; number < *items; number++ {
			do(client, "put", number, number)
		}
		return
	}
	clients := make([]*clientv3.Client, *connections)
	for number := range clients {
		clients[number] = connect(number)
		do(clients[number], operation, number, number)
	}
	start := time.Now()
	end := start.Add(time.Duration(*seconds * float64(time.Second)))
	latencies := make([][]time.Duration, *connections)
	var done sync.WaitGroup
	for number := range clients {
		done.Add(1)
		go func(number int) {
			defer done.Done()
			for serial := number; time.Now().Before(end); serial += *connections {
				before := time.Now()
				do(clients[number], operation, serial*7919, serial)
				latencies[number] = append(latencies[number], time.Since(before))
			}
		}(number)
	}
	done.Wait()
	report(latencies)
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(2)
}

func connect(number int) *clientv3.Client {
	members := strings.Split(*to, ",")
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{members[number%len(members)]},
		DialTimeout: 10 * time.Second,
		Logger:      zap.NewNop(),
	})
	if err != nil {
		fail(err.Error())
	}
	return client
}

func do(client *clientv3.Client, operation string, item, serial int) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	key := fmt.Sprintf("item-%08d", item%*items)
	var err error
	if operation == "put" {
		value := fmt.Sprintf("%-*d", *bytes, serial)
		_, err = client.Put(ctx, key, value)
	} else {
		var reply *clientv3.GetResponse
		reply, err = client.Get(ctx, key)
		if err == nil && (len(reply.Kvs) != 1 || len(reply.Kvs[0].Value) != *bytes) {
			fail(key + " is not as it was filled")
		}
	}
	if err != nil {
		fail(err.Error())
	}
}

func report(latencies [][]time.Duration) {
	var all []time.Duration
	for _, some := range latencies {
		all = append(all, some...)
	}
	if len(all) == 0 {
		fail("nothing was done")
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	ms := func(quantile float64) float64 {
		return all[int(quantile*float64(len(all)-1))].Seconds() * 1000
	}
	line, _ := json.Marshal(map[string]interface{}{
		"done":   len(all),
		"rate":   float64(len(all)) / *seconds,
		"p50_ms": ms(0.5),
		"p99_ms": ms(0.99),
	})
	fmt.Println(string(line))
}
