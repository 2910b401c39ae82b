// Drives a SimpleDB endpoint with the AWS SDK for Go, version 1, and says `ok NAME` for each check.
//
// The endpoint and the keys come from the environment; the first check that fails ends the program
// with its reason.
package main

import (
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/awserr"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/aws/aws-sdk-go/service/simpledb"
)

const domain = "go-sdk"

type check struct {
	name string
	run  func(*simpledb.SimpleDB) error
}

func main() {
	settings := aws.NewConfig().
		WithEndpoint(os.Getenv("AWS_ENDPOINT_URL")).
		WithRegion("us-east-1").
		WithMaxRetries(0)
	sdb := simpledb.New(session.Must(session.NewSession(settings)))
	checks := []check{
		{"create", create},
		{"put_and_get", putAndGet},
		{"conditional_put", conditionalPut},
		{"batch_and_select_pages", batchAndSelectPages},
		{"errors", errors},
		{"delete", remove},
	}
	for _, check := range checks {
		if err := check.run(sdb); err != nil {
			fmt.Printf("not ok %s: %v\n", check.name, err)
			os.Exit(1)
		}
		fmt.Println("ok", check.name)
	}
}

func create(sdb *simpledb.SimpleDB) error {
	_, err := sdb.CreateDomain(&simpledb.CreateDomainInput{DomainName: aws.String(domain)})
	if err != nil {
		return err
	}
	list, err := sdb.ListDomains(&simpledb.ListDomainsInput{})
	if err != nil {
		return err
	}
	for _, name := range list.DomainNames {
		if *name == domain {
			return nil
		}
	}
	return fmt.Errorf("%s is not listed", domain)
}

func put(sdb *simpledb.SimpleDB, item, name, value string, expected *simpledb.UpdateCondition) error {
	_, err := sdb.PutAttributes(&simpledb.PutAttributesInput{
		DomainName: aws.String(domain),
		ItemName:   aws.String(item),
		Attributes: []*simpledb.ReplaceableAttribute{{
			Name: aws.String(name), Value: aws.String(value), Replace: aws.Bool(true),
		}},
		Expected: expected,
	})
	return err
}

func get(sdb *simpledb.SimpleDB, item string) (map[string]string, error) {
	reply, err := sdb.GetAttributes(&simpledb.GetAttributesInput{
		DomainName:     aws.String(domain),
		ItemName:       aws.String(item),
		ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, attribute := range reply.Attributes {
		found[*attribute.Name] = *attribute.Value
	}
	return found, nil
}

func putAndGet(sdb *simpledb.SimpleDB) error {
	if err := put(sdb, "item é", "größe & <more>", "a+b %20 ~", nil); err != nil {
		return err
	}
	found, err := get(sdb, "item é")
	if err != nil {
		return err
	}
	if found["größe & <more>"] != "a+b %20 ~" {
		return fmt.Errorf("got %v", found)
	}
	return nil
}

func conditionalPut(sdb *simpledb.SimpleDB) error {
	absent := &simpledb.UpdateCondition{Name: aws.String("version"), Exists: aws.Bool(false)}
	if err := put(sdb, "item", "version", "1", absent); err != nil {
		return err
	}
	err := put(sdb, "item", "version", "2", absent)
	return isRefused(err, "ConditionalCheckFailed")
}

func batchAndSelectPages(sdb *simpledb.SimpleDB) error {
	for start := 0; start < 150; start += 25 {
		var items []*simpledb.ReplaceableItem
		for n := start; n < start+25; n++ {
			items = append(items, &simpledb.ReplaceableItem{
				Name: aws.String(fmt.Sprintf("number-%03d", n)),
				Attributes: []*simpledb.ReplaceableAttribute{{
					Name: aws.String("n"), Value: aws.String(fmt.Sprintf("%03d", n)),
				}},
			})
		}
		_, err := sdb.BatchPutAttributes(&simpledb.BatchPutAttributesInput{
			DomainName: aws.String(domain), Items: items,
		})
		if err != nil {
			return err
		}
	}
	expression := "select n from `" + domain + "` where n >= '010' order by n"
	query := &simpledb.SelectInput{SelectExpression: aws.String(expression)}
	next, pages := 10, 0
	err := sdb.SelectPages(query, func(page *simpledb.SelectOutput, last bool) bool {
		pages++
		for _, item := range page.Items {
			if *item.Attributes[0].Value == fmt.Sprintf("%03d", next) {
				next++
			}
		}
		return true
	})
	if err == nil && (next != 150 || pages != 2) {
		err = fmt.Errorf("%d pages, up to %d", pages, next)
	}
	return err
}

func errors(sdb *simpledb.SimpleDB) error {
	query := &simpledb.SelectInput{SelectExpression: aws.String("select * from nowhere")}
	_, err := sdb.Select(query)
	return isRefused(err, "NoSuchDomain")
}

func remove(sdb *simpledb.SimpleDB) error {
	_, err := sdb.DeleteDomain(&simpledb.DeleteDomainInput{DomainName: aws.String(domain)})
	return err
}

func isRefused(err error, code string) error {
	if refusal, ok := err.(awserr.Error); ok && refusal.Code() == code {
		return nil
	}
	return fmt.Errorf("wanted %s, got %v", code, err)
}
