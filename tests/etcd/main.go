// An etcd server, as its own repository builds it: what a cluster of Fader is measured against.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
