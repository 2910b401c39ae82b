// Toxiproxy: a proxy of TCP whose connections its API slows, cuts and resets.
//
//	toxiproxy HOST PORT
package main

import (
	"os"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

func main() {
	metrics := toxiproxy.NewMetricsContainer(prometheus.NewRegistry())
	toxiproxy.NewServer(metrics, zerolog.Nop()).Listen(os.Args[1], os.Args[2])
}
