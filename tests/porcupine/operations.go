// Judges histories of operations as `fader measure convert` writes them (docs/reference/format/history.md).

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/anishathalye/porcupine"
)

// An operation, with the field names of Porcupine's own.
type operation struct {
	ClientId int
	Input    asked
	Call     int64
	Output   told
	Return   int64
}

type asked struct {
	Action string      `json:"action"`
	Key    string      `json:"key"`
	Value  interface{} `json:"value"`
	From   interface{} `json:"from"`
}

type told struct {
	Shown   interface{} `json:"shown"`
	Unmet   bool        `json:"unmet"`
	Unknown bool        `json:"unknown"`
}

// A register with compare-and-set.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		keys := map[string][]porcupine.Operation{}
		for _, one := range history {
			key := one.Input.(asked).Key
			keys[key] = append(keys[key], one)
		}
		var parts [][]porcupine.Operation
		for _, part := range keys {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() interface{} { return nil },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		asked, told := input.(asked), output.(told)
		switch asked.Action {
		case "read":
			return reflect.DeepEqual(state, told.Shown), state
		case "write":
			return true, asked.Value
		case "swap":
			isMet := reflect.DeepEqual(state, asked.From)
			if isMet && !told.Unmet {
				return true, asked.Value
			}
			return told.Unknown || !isMet && told.Unmet, state
		}
		fail("action " + asked.Action + ": expected read, write or swap")
		return false, nil
	},
	Equal: func(one, other interface{}) bool { return reflect.DeepEqual(one, other) },
}

// Prints for each key of a log, or for each log, whether it is linearizable.
func judgeOperations(paths []string, byKey bool) {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			fail(err.Error())
		}
		var history []porcupine.Operation
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var one operation
			if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
				fail(path + ": " + err.Error())
			}
			history = append(history, porcupine.Operation{
				ClientId: one.ClientId, Input: one.Input, Call: one.Call,
				Output: one.Output, Return: one.Return,
			})
		}
		if err := lines.Err(); err != nil {
			fail(err.Error())
		}
		file.Close()
		parts := map[string][]porcupine.Operation{path: history}
		if byKey {
			delete(parts, path)
			for _, part := range register.Partition(history) {
				parts[part[0].Input.(asked).Key] = part
			}
		}
		begun := time.Now()
		for name, part := range parts {
			switch porcupine.CheckOperationsTimeout(register, part, patience) {
			case porcupine.Ok:
				fmt.Println(name, "good")
			case porcupine.Illegal:
				fmt.Println(name, "bad")
			case porcupine.Unknown:
				fmt.Println(name, "unknown")
			}
		}
		fmt.Fprintf(os.Stderr, "%s: %f seconds\n", path, time.Since(begun).Seconds())
	}
}
