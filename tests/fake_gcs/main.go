// A GCS server in memory: fake-gcs-server, and what it lacks of GCS's XML protocol.
//
// It takes no puts with x-goog-if-generation-match, so those become uploads of its JSON protocol
// with ifGenerationMatch, which it decides. Its XML reads tell neither generation nor 304.
//
//	fake_gcs ADDRESS BUCKET
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"net/url"
	"os"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

const metadataPrefix = "X-Goog-Meta-"

// What the JSON protocol tells of an object.
type object struct {
	Generation string            `json:"generation"`
	MD5        string            `json:"md5Hash"`
	Metadata   map[string]string `json:"metadata"`
}

type server struct {
	inner  http.Handler
	bucket string
}

func main() {
	address, bucket := os.Args[1], os.Args[2]
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener: true,
		PublicHost: address,
		Scheme:     "http",
	})
	if err != nil {
		log.Fatal(err)
	}
	fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	log.Fatal(http.ListenAndServe(address, &server{fake.HTTPHandler(), bucket}))
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/"+s.bucket+"/")
	isObject := key != r.URL.Path && key != ""
	isCopy := r.Header.Get("X-Goog-Copy-Source") != ""
	isPart := r.URL.Query().Has("uploadId") || r.URL.Query().Has("partNumber")
	switch {
	case isObject && r.Method == http.MethodPut && !isCopy && !isPart:
		s.put(w, r, key)
	case isObject && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		s.get(w, r, key)
	default:
		s.inner.ServeHTTP(w, r)
	}
}

// put sends an object as a multipart upload: its metadata, then its bytes.
func (s *server) put(w http.ResponseWriter, r *http.Request, key string) {
	metadata := map[string]string{}
	for name := range r.Header {
		if strings.HasPrefix(name, metadataPrefix) {
			metadata[strings.ToLower(name[len(metadataPrefix):])] = r.Header.Get(name)
		}
	}
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	head, _ := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {"application/json"}})
	json.NewEncoder(head).Encode(map[string]any{"name": key, "metadata": metadata})
	kind := r.Header.Get("Content-Type")
	data, _ := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {kind}})
	if _, err := io.Copy(data, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	parts.Close()
	query := url.Values{"uploadType": {"multipart"}, "name": {key}}
	if wanted := r.Header.Get("X-Goog-If-Generation-Match"); wanted != "" {
		query.Set("ifGenerationMatch", wanted)
	}
	target := fmt.Sprintf("/upload/storage/v1/b/%s/o?%s", s.bucket, query.Encode())
	upload := httptest.NewRequest(http.MethodPost, target, &body)
	upload.Header.Set("Content-Type", "multipart/related; boundary="+parts.Boundary())
	upload.Host = r.Host
	reply := httptest.NewRecorder()
	s.inner.ServeHTTP(reply, upload)
	var found object
	if reply.Code == http.StatusOK {
		json.Unmarshal(reply.Body.Bytes(), &found)
		w.Header().Set("X-Goog-Generation", found.Generation)
		w.Header().Set("ETag", etag(found))
		w.WriteHeader(http.StatusOK)
		return
	}
	w.WriteHeader(reply.Code)
	w.Write(reply.Body.Bytes())
}

// get answers a read with its generation, and with 304 where its ETag is known.
func (s *server) get(w http.ResponseWriter, r *http.Request, key string) {
	target := fmt.Sprintf("/storage/v1/b/%s/o/%s", s.bucket, url.PathEscape(key))
	look := httptest.NewRequest(http.MethodGet, target, nil)
	look.Host = r.Host
	reply := httptest.NewRecorder()
	s.inner.ServeHTTP(reply, look)
	var found object
	if reply.Code != http.StatusOK || json.Unmarshal(reply.Body.Bytes(), &found) != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if r.Header.Get("If-None-Match") == etag(found) {
		w.Header().Set("ETag", etag(found))
		w.WriteHeader(http.StatusNotModified)
		return
	}
	r.Header.Del("If-None-Match")
	body := httptest.NewRecorder()
	s.inner.ServeHTTP(body, r)
	for name, values := range body.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("ETag", etag(found))
	w.Header().Set("X-Goog-Generation", found.Generation)
	for name, value := range found.Metadata {
		w.Header().Set(metadataPrefix+name, value)
	}
	w.WriteHeader(body.Code)
	w.Write(body.Body.Bytes())
}

// etag is of the bytes, as GCS's own and as in this server's lists.
func etag(found object) string {
	return `"` + found.MD5 + `"`
}
