package fader;

import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.ResponseBytes;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.ChecksumAlgorithm;
import software.amazon.awssdk.services.s3.model.ChecksumMode;
import software.amazon.awssdk.services.s3.model.CompletedPart;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;
import software.amazon.awssdk.services.s3.model.NoSuchKeyException;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;
import software.amazon.awssdk.services.s3.model.S3Exception;
import software.amazon.awssdk.services.s3.model.S3Object;

/**
 * Drives an S3 endpoint with the AWS SDK for Java, version 2, and says `ok NAME` for each check.
 * The endpoint and the keys come from the environment. The SDK sends signed chunks, with a trailer.
 */
public final class S3Tour {
  private static final String BUCKET = "java-sdk";
  private static final int PART_BYTES = 5 << 20;

  private final S3Client s3;

  private S3Tour(S3Client s3) {
    this.s3 = s3;
  }

  public static void main(String[] arguments) {
    AwsBasicCredentials keys =
        AwsBasicCredentials.create(
            System.getenv("AWS_ACCESS_KEY_ID"), System.getenv("AWS_SECRET_ACCESS_KEY"));
    S3Client s3 =
        S3Client.builder()
            .endpointOverride(URI.create(System.getenv("AWS_ENDPOINT_URL")))
            .region(Region.US_EAST_1)
            .credentialsProvider(StaticCredentialsProvider.create(keys))
            .forcePathStyle(true)
            .httpClientBuilder(UrlConnectionHttpClient.builder())
            .build();
    S3Tour tour = new S3Tour(s3);
    tour.check("create", tour::create);
    tour.check("put_and_get", tour::putAndGet);
    tour.check("checksums", tour::checksums);
    tour.check("parts", tour::parts);
    tour.check("lists", tour::lists);
    tour.check("errors", tour::errors);
    tour.check("delete", tour::delete);
  }

  private void check(String name, Runnable run) {
    try {
      run.run();
    } catch (RuntimeException failure) {
      System.out.println("not ok " + name + ": " + failure);
      failure.printStackTrace();
      System.exit(1);
    }
    System.out.println("ok " + name);
  }

  private static void require(boolean holds, String what) {
    if (!holds) {
      throw new IllegalStateException(what);
    }
  }

  private static byte[] noise(int size, int seed) {
    byte[] bytes = new byte[size];
    new Random(seed).nextBytes(bytes);
    return bytes;
  }

  private void create() {
    s3.createBucket(request -> request.bucket(BUCKET));
  }

  private ResponseBytes<GetObjectResponse> get(String key) {
    return s3.getObjectAsBytes(
        request -> request.bucket(BUCKET).key(key).checksumMode(ChecksumMode.ENABLED));
  }

  private void putAndGet() {
    for (int size : new int[] {0, 1, 200_000, 6 << 20}) {
      byte[] body = noise(size, size);
      s3.putObject(
          request -> request.bucket(BUCKET).key("a b/ü").metadata(Map.of("who", "me")),
          RequestBody.fromBytes(body));
      ResponseBytes<GetObjectResponse> found = get("a b/ü");
      require(Arrays.equals(found.asByteArray(), body), "bytes differ");
      require("me".equals(found.response().metadata().get("who")), "metadata differ");
    }
  }

  private void checksums() {
    for (ChecksumAlgorithm algorithm :
        List.of(ChecksumAlgorithm.CRC32, ChecksumAlgorithm.SHA1, ChecksumAlgorithm.SHA256)) {
      byte[] body = noise(150_000, 9);
      s3.putObject(
          request -> request.bucket(BUCKET).key("sum").checksumAlgorithm(algorithm),
          RequestBody.fromBytes(body));
      require(Arrays.equals(get("sum").asByteArray(), body), "bytes differ: " + algorithm);
    }
  }

  private void parts() {
    String upload =
        s3.createMultipartUpload(
                request ->
                    request
                        .bucket(BUCKET)
                        .key("parts")
                        .checksumAlgorithm(ChecksumAlgorithm.CRC32))
            .uploadId();
    List<CompletedPart> done = new ArrayList<>();
    byte[] whole = noise(PART_BYTES + 77, 3);
    for (int number = 1; number <= 2; number++) {
      int part = number;
      byte[] body =
          part == 1
              ? Arrays.copyOfRange(whole, 0, PART_BYTES)
              : Arrays.copyOfRange(whole, PART_BYTES, whole.length);
      var sent =
          s3.uploadPart(
              request ->
                  request
                      .bucket(BUCKET)
                      .key("parts")
                      .uploadId(upload)
                      .partNumber(part)
                      .checksumAlgorithm(ChecksumAlgorithm.CRC32),
              RequestBody.fromBytes(body));
      done.add(
          CompletedPart.builder()
              .partNumber(part)
              .eTag(sent.eTag())
              .checksumCRC32(sent.checksumCRC32())
              .build());
    }
    s3.completeMultipartUpload(
        request ->
            request
                .bucket(BUCKET)
                .key("parts")
                .uploadId(upload)
                .multipartUpload(parts -> parts.parts(done)));
    require(Arrays.equals(get("parts").asByteArray(), whole), "bytes differ");
  }

  private void lists() {
    List<String> keys = new ArrayList<>();
    s3.listObjectsV2Paginator(request -> request.bucket(BUCKET).maxKeys(2))
        .contents()
        .forEach(object -> keys.add(object.key()));
    require(keys.equals(List.of("a b/ü", "parts", "sum")), keys.toString());
  }

  private void errors() {
    try {
      get("none");
      throw new IllegalStateException("there is such a key");
    } catch (NoSuchKeyException expected) {
      require(expected.statusCode() == 404, expected.toString());
    }
    try {
      s3.putObject(
          request -> request.bucket(BUCKET).key("sum").ifNoneMatch("*"),
          RequestBody.fromString("no"));
      throw new IllegalStateException("it was put");
    } catch (S3Exception expected) {
      require(
          expected.awsErrorDetails().errorCode().equals("PreconditionFailed"),
          expected.toString());
    }
  }

  private void delete() {
    List<ObjectIdentifier> objects = new ArrayList<>();
    for (S3Object object : s3.listObjectsV2(request -> request.bucket(BUCKET)).contents()) {
      objects.add(ObjectIdentifier.builder().key(object.key()).build());
    }
    var deleted =
        s3.deleteObjects(
            request -> request.bucket(BUCKET).delete(them -> them.objects(objects)));
    require(deleted.deleted().size() == objects.size(), deleted.toString());
    s3.deleteBucket(request -> request.bucket(BUCKET));
  }
}
