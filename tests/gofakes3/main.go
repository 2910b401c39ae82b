// An S3 server in memory, written apart from moto: gofakes3, as its own program runs it.
//
//	gofakes3 ADDRESS
package main

import (
	"log"
	"net/http"
	"os"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	faker := gofakes3.New(s3mem.New())
	log.Fatal(http.ListenAndServe(os.Args[1], faker.Server()))
}
