package fader;

import com.amazonaws.ClientConfiguration;
import com.amazonaws.auth.AWSStaticCredentialsProvider;
import com.amazonaws.auth.BasicAWSCredentials;
import com.amazonaws.client.builder.AwsClientBuilder.EndpointConfiguration;
import com.amazonaws.services.simpledb.AmazonSimpleDB;
import com.amazonaws.services.simpledb.AmazonSimpleDBClient;
import com.amazonaws.services.simpledb.AmazonSimpleDBClientBuilder;
import com.amazonaws.services.simpledb.model.AmazonSimpleDBException;
import com.amazonaws.services.simpledb.model.Attribute;
import com.amazonaws.services.simpledb.model.BatchPutAttributesRequest;
import com.amazonaws.services.simpledb.model.CreateDomainRequest;
import com.amazonaws.services.simpledb.model.DeleteDomainRequest;
import com.amazonaws.services.simpledb.model.GetAttributesRequest;
import com.amazonaws.services.simpledb.model.Item;
import com.amazonaws.services.simpledb.model.PutAttributesRequest;
import com.amazonaws.services.simpledb.model.ReplaceableAttribute;
import com.amazonaws.services.simpledb.model.ReplaceableItem;
import com.amazonaws.services.simpledb.model.SelectRequest;
import com.amazonaws.services.simpledb.model.SelectResult;
import com.amazonaws.services.simpledb.model.UpdateCondition;
import java.util.ArrayList;
import java.util.List;

/**
 * Drives a SimpleDB endpoint with the AWS SDK for Java, version 1, and says {@code ok NAME} for
 * each check. The endpoint and the keys come from the environment; the first check that fails ends
 * the program.
 */
public final class SimpleDbTour {
    private static final String DOMAIN = "java-sdk";

    private final AmazonSimpleDB sdb;

    private SimpleDbTour(AmazonSimpleDB sdb) {
        this.sdb = sdb;
    }

    public static void main(String[] arguments) {
        BasicAWSCredentials credentials =
            new BasicAWSCredentials(
                System.getenv("AWS_ACCESS_KEY_ID"), System.getenv("AWS_SECRET_ACCESS_KEY"));
        AmazonSimpleDBClientBuilder builder = AmazonSimpleDBClient.builder();
        builder.setCredentials(new AWSStaticCredentialsProvider(credentials));
        builder.setEndpointConfiguration(
            new EndpointConfiguration(System.getenv("AWS_ENDPOINT_URL"), "us-east-1"));
        builder.setClientConfiguration(new ClientConfiguration().withMaxErrorRetry(0));
        SimpleDbTour tour = new SimpleDbTour(builder.build());
        run("create", tour::create);
        run("put_and_get", tour::putAndGet);
        run("conditional_put", tour::conditionalPut);
        run("batch_and_select_pages", tour::batchAndSelectPages);
        run("base64", tour::base64);
        run("errors", tour::errors);
        run("delete", tour::delete);
    }

    private static void run(String name, Runnable check) {
        try {
            check.run();
        } catch (RuntimeException | AssertionError failure) {
            System.out.println("not ok " + name + ": " + failure);
            System.exit(1);
        }
        System.out.println("ok " + name);
    }

    private static void same(Object expected, Object actual) {
        if (!expected.equals(actual)) {
            throw new AssertionError("expected " + expected + ", got " + actual);
        }
    }

    private void create() {
        sdb.createDomain(new CreateDomainRequest(DOMAIN));
        same(true, sdb.listDomains().getDomainNames().contains(DOMAIN));
    }

    private void put(String item, String name, String value, UpdateCondition expected) {
        List<ReplaceableAttribute> attributes =
            List.of(new ReplaceableAttribute(name, value, true));
        PutAttributesRequest request = new PutAttributesRequest(DOMAIN, item, attributes);
        sdb.putAttributes(request.withExpected(expected));
    }

    private List<Attribute> get(String item) {
        GetAttributesRequest request = new GetAttributesRequest(DOMAIN, item);
        return sdb.getAttributes(request.withConsistentRead(true)).getAttributes();
    }

    private void putAndGet() {
        put("item \u00e9", "gr\u00f6\u00dfe & <more>", "a+b %20 ~*", null);
        Attribute expected = new Attribute("gr\u00f6\u00dfe & <more>", "a+b %20 ~*");
        same(List.of(expected), get("item \u00e9"));
    }

    private void conditionalPut() {
        UpdateCondition absent = new UpdateCondition().withName("version").withExists(false);
        put("item", "version", "1", absent);
        same("ConditionalCheckFailed", refusal(() -> put("item", "version", "2", absent)));
        put("item", "version", "2", new UpdateCondition("version", "1", true));
    }

    private void batchAndSelectPages() {
        for (int start = 0; start < 150; start += 25) {
            List<ReplaceableItem> items = new ArrayList<>();
            for (int n = start; n < start + 25; n++) {
                String number = String.format("%03d", n);
                ReplaceableAttribute attribute = new ReplaceableAttribute("n", number, false);
                items.add(new ReplaceableItem("number-" + number, List.of(attribute)));
            }
            sdb.batchPutAttributes(new BatchPutAttributesRequest(DOMAIN, items));
        }
        SelectRequest request =
            new SelectRequest("select n from `" + DOMAIN + "` where n >= '010' order by n", true);
        int next = 10;
        int pages = 0;
        do {
            SelectResult page = sdb.select(request);
            for (Item item : page.getItems()) {
                same(String.format("number-%03d", next), item.getName());
                next++;
            }
            request.setNextToken(page.getNextToken());
            pages++;
        } while (request.getNextToken() != null);
        same(150, next);
        same(2, pages);
    }

    /** What XML cannot carry comes with {@code encoding="base64"}, which this SDK takes apart. */
    private void base64() {
        put("bell", "sound", "a\u0007b", null);
        same("YQdi", get("bell").get(0).getValue());
        same("base64", get("bell").get(0).getAlternateValueEncoding());
    }

    private void errors() {
        SelectRequest nowhere = new SelectRequest("select * from nowhere");
        same("NoSuchDomain", refusal(() -> sdb.select(nowhere)));
    }

    private void delete() {
        sdb.deleteDomain(new DeleteDomainRequest(DOMAIN));
        same(false, sdb.listDomains().getDomainNames().contains(DOMAIN));
    }

    private static String refusal(Runnable action) {
        try {
            action.run();
        } catch (AmazonSimpleDBException refused) {
            return refused.getErrorCode();
        }
        return "no refusal";
    }
}
