// An S3 server in memory, written apart from moto: gofakes3, as its own program runs it.
//
//	gofakes3 ADDRESS [DELAY]
//
// With a delay such as 25ms each request waits so long before it is carried out.
package main

import (
	"log"
	"net/http"
	"os"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	server := gofakes3.New(s3mem.New()).Server()
	if len(os.Args) == 3 {
		delay, err := time.ParseDuration(os.Args[2])
		if err != nil {
			log.Fatal(err)
		}
		server = delayed(server, delay)
	}
	log.Fatal(http.ListenAndServe(os.Args[1], server))
}

func delayed(server http.Handler, delay time.Duration) http.Handler {
	return http.HandlerFunc(func(reply http.ResponseWriter, request *http.Request) {
		time.Sleep(delay)
		server.ServeHTTP(reply, request)
	})
}
