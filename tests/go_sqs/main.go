// Drives an SQS endpoint with the AWS SDK for Go, version 2, and says `ok NAME` for each check.
//
// The endpoint and the keys come from the environment; the first check that fails ends the program
// with its reason. The SDK itself compares MD5 sums.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

type tour struct {
	sqs   *sqs.Client
	queue *string
}

func main() {
	keys := credentials.NewStaticCredentialsProvider(
		os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), "")
	client := sqs.New(sqs.Options{
		BaseEndpoint:     aws.String(os.Getenv("AWS_ENDPOINT_URL")),
		Region:           "us-east-1",
		Credentials:      keys,
		RetryMaxAttempts: 1,
	})
	it := &tour{sqs: client}
	checks := []struct {
		name string
		run  func(context.Context) error
	}{
		{"create", it.create},
		{"send_and_receive", it.sendAndReceive},
		{"batches", it.batches},
		{"fifo", it.fifo},
		{"visibility", it.visibility},
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
	made, err := it.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName:  aws.String("go-sdk"),
		Attributes: map[string]string{"VisibilityTimeout": "60"},
	})
	if err != nil {
		return err
	}
	it.queue = made.QueueUrl
	found, err := it.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("go-sdk")})
	if err == nil && *found.QueueUrl != *it.queue {
		err = fmt.Errorf("%s is not %s", *found.QueueUrl, *it.queue)
	}
	return err
}

func (it *tour) receive(ctx context.Context, queue *string, count int32) ([]types.Message, error) {
	reply, err := it.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: queue, MaxNumberOfMessages: count, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	})
	if err != nil {
		return nil, err
	}
	return reply.Messages, nil
}

func (it *tour) sendAndReceive(ctx context.Context) error {
	const body = "größe & <more> a+b %20 ~\n"
	sent, err := it.sqs.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: it.queue, MessageBody: aws.String(body),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"bytes": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255}},
			"count": {DataType: aws.String("Number"), StringValue: aws.String("7")},
		},
	})
	if err != nil {
		return err
	}
	found, err := it.receive(ctx, it.queue, 10)
	if err != nil {
		return err
	}
	if len(found) != 1 || *found[0].Body != body || *found[0].MessageId != *sent.MessageId {
		return fmt.Errorf("received %v", found)
	}
	if found[0].Attributes["ApproximateReceiveCount"] != "1" || len(found[0].MessageAttributes) != 2 {
		return fmt.Errorf("received %v", found[0])
	}
	_, err = it.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{
		QueueUrl: it.queue, ReceiptHandle: found[0].ReceiptHandle,
	})
	return err
}

func (it *tour) batches(ctx context.Context) error {
	var entries []types.SendMessageBatchRequestEntry
	for at := 0; at < 10; at++ {
		entries = append(entries, types.SendMessageBatchRequestEntry{
			Id: aws.String(fmt.Sprint(at)), MessageBody: aws.String(fmt.Sprintf("body %d", at)),
		})
	}
	sent, err := it.sqs.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{
		QueueUrl: it.queue, Entries: entries,
	})
	if err != nil || len(sent.Successful) != 10 || len(sent.Failed) != 0 {
		return fmt.Errorf("sent %v: %v", sent, err)
	}
	found, err := it.receive(ctx, it.queue, 10)
	if err != nil || len(found) != 10 {
		return fmt.Errorf("received %d: %v", len(found), err)
	}
	var gone []types.DeleteMessageBatchRequestEntry
	for at, message := range found {
		gone = append(gone, types.DeleteMessageBatchRequestEntry{
			Id: aws.String(fmt.Sprint(at)), ReceiptHandle: message.ReceiptHandle,
		})
	}
	deleted, err := it.sqs.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{
		QueueUrl: it.queue, Entries: gone,
	})
	if err != nil || len(deleted.Successful) != 10 {
		return fmt.Errorf("deleted %v: %v", deleted, err)
	}
	return nil
}

func (it *tour) fifo(ctx context.Context) error {
	made, err := it.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName: aws.String("go-sdk.fifo"),
		Attributes: map[string]string{
			"FifoQueue": "true", "ContentBasedDeduplication": "true",
		},
	})
	if err != nil {
		return err
	}
	for _, body := range []string{"1", "2", "2"} {
		_, err := it.sqs.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl: made.QueueUrl, MessageBody: aws.String(body), MessageGroupId: aws.String("g"),
		})
		if err != nil {
			return err
		}
	}
	found, err := it.receive(ctx, made.QueueUrl, 10)
	if err != nil || len(found) != 2 || *found[0].Body != "1" || *found[1].Body != "2" {
		return fmt.Errorf("received %v: %v", found, err)
	}
	_, err = it.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: made.QueueUrl})
	return err
}

func (it *tour) visibility(ctx context.Context) error {
	_, err := it.sqs.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: it.queue, MessageBody: aws.String("again"),
	})
	if err != nil {
		return err
	}
	found, err := it.receive(ctx, it.queue, 1)
	if err != nil || len(found) != 1 {
		return fmt.Errorf("received %v: %v", found, err)
	}
	_, err = it.sqs.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: it.queue, ReceiptHandle: found[0].ReceiptHandle, VisibilityTimeout: 0,
	})
	if err != nil {
		return err
	}
	found, err = it.receive(ctx, it.queue, 1)
	if err != nil || len(found) != 1 || *found[0].Body != "again" {
		return fmt.Errorf("received %v: %v", found, err)
	}
	return nil
}

func (it *tour) errors(ctx context.Context) error {
	_, err := it.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("absent")})
	var absent *types.QueueDoesNotExist
	if !errors.As(err, &absent) {
		return fmt.Errorf("wanted QueueDoesNotExist, got %v", err)
	}
	_, err = it.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{
		QueueUrl: it.queue, ReceiptHandle: aws.String("forged"),
	})
	var invalid *types.ReceiptHandleIsInvalid
	if !errors.As(err, &invalid) {
		return fmt.Errorf("wanted ReceiptHandleIsInvalid, got %v", err)
	}
	return nil
}

func (it *tour) remove(ctx context.Context) error {
	_, err := it.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: it.queue})
	return err
}
