// Judges a history of the nemesis: is every item, as strong operations saw it, linearizable?
//
//	porcupine HISTORY
//	porcupine operations LOG.porcupine...
//	porcupine keys LOG.porcupine...
//
// A history is a log of Fader (docs/reference/format/history.md), in which an item is a register and a set
// (tests/nemesis/history.py). Exit codes: 0 linearizable, 1 not, 2 no verdict. What clients were not told acts at any time after it was
// asked, or never.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// How long one item may take.
const patience = 60 * time.Second

// A line of the log.
type line struct {
	Process  int         `json:"process"`
	Endpoint string      `json:"endpoint"`
	Level    string      `json:"level"`
	Called   int64       `json:"called"`
	Returned int64       `json:"returned"`
	Action   string      `json:"action"`
	Key      string      `json:"key"`
	Value    string      `json:"value"`
	From     string      `json:"from"`
	Outcome  string      `json:"outcome"`
	Shown    interface{} `json:"shown"`
}

// What one client asked of an item, and was told.
type call struct {
	Client   int      `json:"client"`
	Node     string   `json:"node"`
	Op       string   `json:"op"`
	Level    string   `json:"level"`
	Item     string   `json:"item"`
	Value    string   `json:"value"`
	Expected string   `json:"expected"`
	Start    int64    `json:"start"`
	End      int64    `json:"end"`
	Outcome  string   `json:"outcome"`
	V        []string `json:"v"`
	E        []string `json:"e"`
}

// An item: what strong writers wrote last, and what has been seen of what eventual ones added.
//
// An addition acts once, at some place after it was asked, or never. Nothing is ever taken away
// from what was added, so an addition may as well act just before the first strong read that shows
// it: it needs no operation of its own, only to have been asked before that read ended.
type item struct {
	v string
	e string
}

func main() {
	if 2 < len(os.Args) && (os.Args[1] == "operations" || os.Args[1] == "keys") {
		judgeOperations(os.Args[2:], os.Args[1] == "keys")
		return
	}
	if len(os.Args) != 2 {
		fail("usage: porcupine HISTORY, or porcupine operations LOG.porcupine...")
	}
	items := read(os.Args[1])
	names := make([]string, 0, len(items))
	for name := range items {
		names = append(names, name)
	}
	sort.Strings(names)
	operations, undecided := 0, 0
	for _, name := range names {
		if why := unasked(items[name]); why != "" {
			refuse(name, items[name], why)
		}
		history := operationsOf(items[name])
		operations += len(history)
		switch porcupine.CheckOperationsTimeout(model, history, patience) {
		case porcupine.Illegal:
			refuse(name, items[name], "no order explains what strong operations were told")
		case porcupine.Unknown:
			undecided++
			fmt.Printf("%s: no verdict after %v\n", name, patience)
		}
	}
	if operations == 0 {
		fail("there is nothing to judge in " + os.Args[1])
	}
	fmt.Printf("porcupine: %d items, %d strong operations: linearizable\n", len(names), operations)
	if undecided > 0 {
		fail(fmt.Sprintf("porcupine: no verdict on %d items", undecided))
	}
}

func fail(why string) {
	fmt.Println(why)
	os.Exit(2)
}

func refuse(name string, calls []call, why string) {
	fmt.Printf("porcupine: %s: %s\n", name, why)
	sort.Slice(calls, func(a, b int) bool { return calls[a].Start < calls[b].Start })
	for _, call := range calls {
		text, _ := json.Marshal(call)
		fmt.Printf("  %s\n", text)
	}
	os.Exit(1)
}

// The calls of a history, by item.
func read(path string) map[string][]call {
	file, err := os.Open(path)
	if err != nil {
		fail(err.Error())
	}
	defer file.Close()
	items := map[string][]call{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	if !lines.Scan() || !strings.Contains(lines.Text(), "fader_log") {
		fail(path + " does not begin as a log of Fader")
	}
	for lines.Scan() {
		var one line
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			fail(err.Error())
		}
		item := strings.TrimSuffix(one.Key, "/e")
		calls := items[item]
		if at := partOf(one, calls); at >= 0 {
			calls[at].E = texts(one.Shown)
		} else {
			items[item] = append(calls, callOf(one, item))
		}
	}
	if err := lines.Err(); err != nil {
		fail(err.Error())
	}
	return items
}

// Of the second line of a read the place of the first among the calls; -1 of any other.
func partOf(one line, calls []call) int {
	if one.Action != "read" || !strings.HasSuffix(one.Key, "/e") {
		return -1
	}
	for at := len(calls) - 1; at >= 0; at-- {
		if calls[at].Client == one.Process && calls[at].Start == one.Called {
			return at
		}
	}
	fail("a read of " + one.Key + " without one of its item")
	return -1
}

func callOf(one line, item string) call {
	op := one.Action
	if op == "read" && strings.HasPrefix(one.Level, "eventual") {
		op = "look"
	}
	outcomes := map[string]string{"done": "ok", "unmet": "no"}
	outcome, isKnown := outcomes[one.Outcome]
	if !isKnown {
		outcome = one.Outcome
	}
	return call{
		Client: one.Process, Node: one.Endpoint, Op: op, Level: one.Level, Item: item,
		Value: one.Value, Expected: one.From, Start: one.Called, End: one.Returned,
		Outcome: outcome, V: texts(one.Shown),
	}
}

// What was shown: nothing, one value or several.
func texts(shown interface{}) []string {
	switch shown := shown.(type) {
	case string:
		return []string{shown}
	case []interface{}:
		all := []string{}
		for _, one := range shown {
			all = append(all, fmt.Sprint(one))
		}
		return all
	}
	return nil
}

// What a strong operation showed before anybody asked for it; empty if nothing.
func unasked(calls []call) string {
	asked := map[string]int64{}
	for _, call := range calls {
		if call.Value != "" {
			asked[call.Value] = call.Start
		}
	}
	for _, call := range calls {
		if !isStrong(call) || call.Outcome != "ok" && call.Outcome != "no" {
			continue
		}
		for _, value := range append(append([]string{}, call.V...), call.E...) {
			start, known := asked[value]
			if !known || call.End < start {
				return fmt.Sprintf("%s was shown, and nobody had written it", value)
			}
		}
	}
	return ""
}

func isStrong(call call) bool {
	return call.Op == "write" || call.Op == "swap" || call.Op == "read"
}

// Strong operations. A write whose outcome is not known and whose value nobody saw may as well have
// come last, and is left out: a swap that failed has shown what it saw, so it saw another.
func operationsOf(calls []call) []porcupine.Operation {
	seen := map[string]bool{}
	for _, call := range calls {
		for _, value := range call.V {
			seen[value] = true
		}
	}
	var history []porcupine.Operation
	for _, call := range calls {
		if !isStrong(call) {
			continue
		}
		end := call.End
		switch {
		case call.Outcome == "ok" || call.Outcome == "no":
		case call.Outcome == "unknown" && call.Op != "read" && seen[call.Value]:
			end = math.MaxInt64
		default:
			continue
		}
		history = append(history, porcupine.Operation{
			ClientId: len(history), Input: call, Call: call.Start, Output: call, Return: end,
		})
	}
	return history
}

var model = porcupine.Model{
	Init: func() interface{} { return item{} },
	Step: func(state, input, _ interface{}) (bool, interface{}) {
		return step(state.(item), input.(call))
	},
	DescribeOperation: func(input, _ interface{}) string {
		return fmt.Sprintf("%+v", input)
	},
}

func step(before item, call call) (bool, item) {
	after := before
	switch {
	case call.Op == "read":
		after.e = strings.Join(call.E, " ")
		return shown(call.V) == before.v && contains(call.E, before.e), after
	case call.Op == "write":
		after.v = call.Value
		return true, after
	case call.Outcome == "no":
		return shown(call.V) == before.v && before.v != call.Expected, before
	case call.Outcome == "unknown" && before.v != call.Expected:
		return true, before
	default:
		after.v = call.Value
		return before.v == call.Expected, after
	}
}

// The value of an attribute that is replaced whole: two values are none that was ever written.
func shown(values []string) string {
	return strings.Join(values, " and ")
}

// Whether `values`, sorted, has all of `earlier`.
func contains(values []string, earlier string) bool {
	if earlier == "" {
		return true
	}
	for _, value := range strings.Split(earlier, " ") {
		at := sort.SearchStrings(values, value)
		if at == len(values) || values[at] != value {
			return false
		}
	}
	return true
}
