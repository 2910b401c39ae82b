// Drives an S3 endpoint with the AWS SDK for Go, version 2, and says `ok NAME` for each check.
//
// The endpoint and the keys come from the environment; the first check that fails ends the program
// with its reason. The SDK sends and compares checksums as it does by default.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

const partBytes = 5 << 20

type tour struct {
	s3     *s3.Client
	bucket *string
}

func main() {
	keys := credentials.NewStaticCredentialsProvider(
		os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), "")
	client := s3.New(s3.Options{
		BaseEndpoint:     aws.String(os.Getenv("AWS_ENDPOINT_URL")),
		Region:           "us-east-1",
		Credentials:      keys,
		RetryMaxAttempts: 1,
		UsePathStyle:     true,
		// The defaults of a client that is made by its configuration.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
	})
	it := &tour{s3: client, bucket: aws.String("go-sdk")}
	checks := []struct {
		name string
		run  func(context.Context) error
	}{
		{"create", it.create},
		{"put_and_get", it.putAndGet},
		{"ranges", it.ranges},
		{"parts", it.parts},
		{"lists", it.lists},
		{"conditions", it.conditions},
		{"presigned", it.presigned},
		{"errors", it.errors},
		{"delete", it.remove},
	}
	for _, check := range checks {
		if err := check.run(context.Background()); err != nil {
			fmt.Printf("not ok %s: %v\n", check.name, err)
			os.Exit(1)
		}
		fmt.Println("ok", check.name)
	}
}

func (it *tour) create(ctx context.Context) error {
	_, err := it.s3.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: it.bucket})
	return err
}

func (it *tour) get(ctx context.Context, key string, expected []byte) error {
	found, err := it.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: it.bucket, Key: &key})
	if err != nil {
		return err
	}
	defer found.Body.Close()
	body, err := io.ReadAll(found.Body)
	if err != nil {
		return err
	}
	if !bytes.Equal(body, expected) {
		return fmt.Errorf("%d bytes differ", len(body))
	}
	return nil
}

func (it *tour) putAndGet(ctx context.Context) error {
	for _, size := range []int{0, 1, 100_000, 6 << 20} {
		body := bytes.Repeat([]byte("x1"), size/2+1)[:size]
		put, err := it.s3.PutObject(ctx, &s3.PutObjectInput{
			Bucket: it.bucket, Key: aws.String("a b+c"), Body: bytes.NewReader(body),
			Metadata: map[string]string{"who": "me"},
		})
		if err != nil {
			return err
		}
		if aws.ToString(put.ChecksumCRC32) == "" {
			return errors.New("no checksum came back")
		}
		if err := it.get(ctx, "a b+c", body); err != nil {
			return err
		}
	}
	return nil
}

func (it *tour) ranges(ctx context.Context) error {
	_, err := it.s3.PutObject(ctx, &s3.PutObjectInput{
		Bucket: it.bucket, Key: aws.String("r"), Body: strings.NewReader("0123456789"),
	})
	if err != nil {
		return err
	}
	found, err := it.s3.GetObject(ctx, &s3.GetObjectInput{
		Bucket: it.bucket, Key: aws.String("r"), Range: aws.String("bytes=2-4"),
	})
	if err != nil {
		return err
	}
	defer found.Body.Close()
	body, err := io.ReadAll(found.Body)
	if err != nil || string(body) != "234" {
		return fmt.Errorf("%q: %v", body, err)
	}
	return nil
}

func (it *tour) parts(ctx context.Context) error {
	key := aws.String("parts")
	upload, err := it.s3.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: it.bucket, Key: key, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32,
	})
	if err != nil {
		return err
	}
	var done []types.CompletedPart
	var whole []byte
	for number, size := range map[int32]int{1: partBytes, 2: 10} {
		body := bytes.Repeat([]byte{byte(number)}, size)
		part, err := it.s3.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: it.bucket, Key: key, UploadId: upload.UploadId, PartNumber: aws.Int32(number),
			Body: bytes.NewReader(body), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32,
		})
		if err != nil {
			return err
		}
		completed := types.CompletedPart{
			ETag: part.ETag, PartNumber: aws.Int32(number), ChecksumCRC32: part.ChecksumCRC32,
		}
		if number == 1 {
			done = append([]types.CompletedPart{completed}, done...)
			whole = append(body, whole...)
		} else {
			done = append(done, completed)
			whole = append(whole, body...)
		}
	}
	_, err = it.s3.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: it.bucket, Key: key, UploadId: upload.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: done},
	})
	if err != nil {
		return err
	}
	return it.get(ctx, "parts", whole)
}

func (it *tour) lists(ctx context.Context) error {
	var keys []string
	pages := s3.NewListObjectsV2Paginator(it.s3, &s3.ListObjectsV2Input{
		Bucket: it.bucket, MaxKeys: aws.Int32(2),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, object := range page.Contents {
			keys = append(keys, aws.ToString(object.Key))
		}
	}
	if strings.Join(keys, ",") != "a b+c,parts,r" {
		return fmt.Errorf("%v", keys)
	}
	return nil
}

func (it *tour) conditions(ctx context.Context) error {
	_, err := it.s3.PutObject(ctx, &s3.PutObjectInput{
		Bucket: it.bucket, Key: aws.String("r"), Body: strings.NewReader("no"),
		IfNoneMatch: aws.String("*"),
	})
	return refused(err, "PreconditionFailed")
}

func refused(err error, code string) error {
	var refusal smithy.APIError
	if !errors.As(err, &refusal) || refusal.ErrorCode() != code {
		return fmt.Errorf("not %s: %v", code, err)
	}
	return nil
}

func (it *tour) presigned(ctx context.Context) error {
	signer := s3.NewPresignClient(it.s3)
	signed, err := signer.PresignGetObject(ctx, &s3.GetObjectInput{
		Bucket: it.bucket, Key: aws.String("r"),
	})
	if err != nil {
		return err
	}
	reply, err := http.Get(signed.URL)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil || string(body) != "0123456789" {
		return fmt.Errorf("%q: %v", body, err)
	}
	return nil
}

func (it *tour) errors(ctx context.Context) error {
	_, err := it.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: it.bucket, Key: aws.String("none")})
	var missing *types.NoSuchKey
	if !errors.As(err, &missing) {
		return fmt.Errorf("not NoSuchKey: %v", err)
	}
	_, err = it.s3.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: it.bucket})
	return refused(err, "BucketNotEmpty")
}

func (it *tour) remove(ctx context.Context) error {
	var objects []types.ObjectIdentifier
	for _, key := range []string{"a b+c", "parts", "r"} {
		objects = append(objects, types.ObjectIdentifier{Key: aws.String(key)})
	}
	deleted, err := it.s3.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: it.bucket, Delete: &types.Delete{Objects: objects},
	})
	if err != nil || len(deleted.Deleted) != len(objects) {
		return fmt.Errorf("%v: %v", deleted, err)
	}
	_, err = it.s3.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: it.bucket})
	return err
}
