// MinIO as its own program starts it.
//
//	minio server --address ADDRESS FOLDER
package main

import (
	"os"

	minio "github.com/minio/minio/cmd"
)

func main() {
	minio.Main(os.Args)
}
