package fader;

import java.net.URI;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.DeleteMessageBatchRequestEntry;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.MessageAttributeValue;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueDoesNotExistException;
import software.amazon.awssdk.services.sqs.model.ReceiptHandleIsInvalidException;
import software.amazon.awssdk.services.sqs.model.SendMessageBatchRequestEntry;

/**
 * Drives an SQS endpoint with the AWS SDK for Java, version 2, and says "ok NAME" for each check.
 *
 * <p>The endpoint and the keys come from the environment. The SDK itself compares MD5 sums.
 */
public final class SqsTour {
    private static SqsClient sqs;
    private static String queue;

    private SqsTour() {}

    public static void main(String[] arguments) {
        sqs =
                SqsClient.builder()
                        .endpointOverride(URI.create(System.getenv("AWS_ENDPOINT_URL")))
                        .region(Region.US_EAST_1)
                        .overrideConfiguration(it -> it.retryStrategy(r -> r.maxAttempts(1)))
                        .build();
        check("create", SqsTour::create);
        check("send_and_receive", SqsTour::sendAndReceive);
        check("batches", SqsTour::batches);
        check("fifo", SqsTour::fifo);
        check("visibility", SqsTour::visibility);
        check("errors", SqsTour::errors);
        check("delete", () -> sqs.deleteQueue(it -> it.queueUrl(queue)));
    }

    private static void check(String name, Runnable run) {
        try {
            run.run();
        } catch (RuntimeException | AssertionError error) {
            System.out.println("not ok " + name + ": " + error);
            System.exit(1);
        }
        System.out.println("ok " + name);
    }

    private static void expect(boolean holds, Object found) {
        if (!holds) {
            throw new AssertionError(found);
        }
    }

    private static void create() {
        Map<QueueAttributeName, String> attributes =
                Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "60");
        queue = sqs.createQueue(it -> it.queueName("java-sdk").attributes(attributes)).queueUrl();
        String found = sqs.getQueueUrl(it -> it.queueName("java-sdk")).queueUrl();
        expect(found.equals(queue), found);
        List<String> all = sqs.listQueuesPaginator().queueUrls().stream().collect(Collectors.toList());
        expect(all.contains(queue), all);
    }

    private static List<Message> receive(String from, int count) {
        return sqs.receiveMessage(
                        it ->
                                it.queueUrl(from)
                                        .maxNumberOfMessages(count)
                                        .messageAttributeNames("All")
                                        .messageSystemAttributeNames(MessageSystemAttributeName.ALL))
                .messages();
    }

    private static void sendAndReceive() {
        String body = "größe & <more> a+b %20 ~\n";
        Map<String, MessageAttributeValue> attributes =
                Map.of(
                        "bytes",
                        MessageAttributeValue.builder()
                                .dataType("Binary")
                                .binaryValue(SdkBytes.fromByteArray(new byte[] {0, -1}))
                                .build(),
                        "count",
                        MessageAttributeValue.builder().dataType("Number").stringValue("7").build());
        String id =
                sqs.sendMessage(
                                it ->
                                        it.queueUrl(queue)
                                                .messageBody(body)
                                                .messageAttributes(attributes))
                        .messageId();
        List<Message> found = receive(queue, 10);
        expect(found.size() == 1 && found.get(0).messageId().equals(id), found);
        Message message = found.get(0);
        expect(message.body().equals(body), message.body());
        expect(message.messageAttributes().equals(attributes), message.messageAttributes());
        sqs.deleteMessage(it -> it.queueUrl(queue).receiptHandle(message.receiptHandle()));
    }

    private static void batches() {
        List<SendMessageBatchRequestEntry> entries =
                IntStream.range(0, 10)
                        .mapToObj(
                                at ->
                                        SendMessageBatchRequestEntry.builder()
                                                .id("e" + at)
                                                .messageBody("body " + at)
                                                .build())
                        .collect(Collectors.toList());
        int sent =
                sqs.sendMessageBatch(it -> it.queueUrl(queue).entries(entries)).successful().size();
        expect(sent == 10, sent);
        List<Message> found = receive(queue, 10);
        expect(found.size() == 10, found);
        List<DeleteMessageBatchRequestEntry> gone =
                found.stream()
                        .map(
                                it ->
                                        DeleteMessageBatchRequestEntry.builder()
                                                .id(it.messageId())
                                                .receiptHandle(it.receiptHandle())
                                                .build())
                        .collect(Collectors.toList());
        int deleted =
                sqs.deleteMessageBatch(it -> it.queueUrl(queue).entries(gone)).successful().size();
        expect(deleted == 10, deleted);
    }

    private static void fifo() {
        Map<QueueAttributeName, String> attributes =
                Map.of(
                        QueueAttributeName.FIFO_QUEUE, "true",
                        QueueAttributeName.CONTENT_BASED_DEDUPLICATION, "true");
        String fifo =
                sqs.createQueue(it -> it.queueName("java-sdk.fifo").attributes(attributes)).queueUrl();
        for (String body : List.of("1", "2", "2")) {
            sqs.sendMessage(it -> it.queueUrl(fifo).messageBody(body).messageGroupId("g"));
        }
        List<String> bodies =
                receive(fifo, 10).stream().map(Message::body).collect(Collectors.toList());
        expect(bodies.equals(List.of("1", "2")), bodies);
        sqs.deleteQueue(it -> it.queueUrl(fifo));
    }

    private static void visibility() {
        sqs.sendMessage(it -> it.queueUrl(queue).messageBody("again"));
        String handle = receive(queue, 1).get(0).receiptHandle();
        sqs.changeMessageVisibility(
                it -> it.queueUrl(queue).receiptHandle(handle).visibilityTimeout(0));
        expect(receive(queue, 1).get(0).body().equals("again"), "another message");
    }

    private static void errors() {
        try {
            sqs.getQueueUrl(it -> it.queueName("absent"));
            throw new AssertionError("no error");
        } catch (QueueDoesNotExistException error) {
            expect(error.statusCode() == 400, error);
        }
        try {
            sqs.deleteMessage(it -> it.queueUrl(queue).receiptHandle("forged"));
            throw new AssertionError("no error");
        } catch (ReceiptHandleIsInvalidException error) {
            expect(error.statusCode() == 404 || error.statusCode() == 400, error);
        }
    }
}
