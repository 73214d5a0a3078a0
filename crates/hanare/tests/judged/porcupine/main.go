// Judges histories of 64-bit words: is each word's linearizable?
//
// A line of a history is `CLIENT WORD CALL A B RESULT BEGIN END`. Calls are `get`, `put A`, `add A` and `cas A B`; get, add and cas give the word before.
// RESULT is `?` where nobody knows it, and END is `-` where the call may have its effect at any later time, or never. Words begin
// as 0.
//
// Usage: judge SECONDS FILE. Exit status: 0 linearizable, 1 not, 2 no history or no verdict within SECONDS a word.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type call struct {
	what     string
	a, b     uint64
	hasValue bool
	isOpen   bool
	line     string
}

// A state is a word's value, or unknown where a history was cut.
type state struct {
	isKnown bool
	value   uint64
}

func step(before, input, output interface{}) []interface{} {
	old, c := before.(state), input.(call)
	if c.what == "put" {
		return []interface{}{state{true, c.a}}
	}
	if c.hasValue {
		told := state{true, output.(uint64)}
		if old.isKnown && old != told {
			return nil
		}
		old = told
	}
	switch {
	case c.what == "add" && old.isKnown:
		old.value += c.a
	case c.what == "cas" && old.isKnown && old.value == c.a:
		old.value = c.b
	case c.what == "cas" && !old.isKnown:
		return []interface{}{old, state{true, c.b}}
	}
	return []interface{}{old}
}

func judge(history []porcupine.Operation, isKnown bool, patience time.Duration) porcupine.CheckResult {
	model := porcupine.NondeterministicModel{Init: func() []interface{} { return []interface{}{state{isKnown, 0}} }, Step: step}
	return porcupine.CheckOperationsTimeout(model.ToModel(), history, patience)
}

func parse(line string) (string, porcupine.Operation, error) {
	bad := func() (string, porcupine.Operation, error) {
		return "", porcupine.Operation{}, fmt.Errorf("no line of a history: %q", line)
	}
	f := strings.Fields(line)
	if len(f) != 8 || !strings.Contains(" get put add cas ", " "+f[2]+" ") {
		return bad()
	}
	var wrong error
	number := func(text, none string) uint64 {
		if text == none {
			return 0
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			wrong = err
		}
		return n
	}
	c := call{what: f[2], a: number(f[3], "-"), b: number(f[4], "-"), hasValue: f[5] != "?" && f[2] != "put", isOpen: f[7] == "-", line: line}
	op := porcupine.Operation{Input: c, Output: number(f[5], "?"), Call: int64(number(f[6], "")), Return: int64(number(f[7], "-"))}
	if c.isOpen {
		op.Return = math.MaxInt64
	}
	client := number(f[0], "")
	op.ClientId = int(client)
	if wrong != nil || op.Return < op.Call {
		return bad()
	}
	return f[1], op, nil
}

// What had begun by a moment; what had not ended then is open.
func until(history []porcupine.Operation, moment int64) []porcupine.Operation {
	var begun []porcupine.Operation
	for _, op := range history {
		if op.Call > moment {
			continue
		}
		if op.Return > moment {
			c := op.Input.(call)
			c.hasValue, op.Return = false, math.MaxInt64
			op.Input = c
		}
		begun = append(begun, op)
	}
	return begun
}

// The shortest bad part: it ends where no order explains it any more, and begins as late as what is left stays bad. Gets that do not matter go.
func shortest(history []porcupine.Operation, patience time.Duration) []porcupine.Operation {
	ends := make([]int64, 0, len(history))
	for _, op := range history {
		ends = append(ends, op.Return)
	}
	sort.Slice(ends, func(i, j int) bool { return ends[i] < ends[j] })
	isBad := func(ops []porcupine.Operation, isKnown bool) bool {
		return judge(ops, isKnown, patience) == porcupine.Illegal
	}
	end := ends[sort.Search(len(ends)-1, func(k int) bool { return isBad(until(history, ends[k]), true) })]
	part, isKnown := until(history, end), true
	late := func(begin int64) (kept []porcupine.Operation) {
		for _, op := range part {
			if op.Return >= begin {
				kept = append(kept, op)
			}
		}
		return kept
	}
	last := sort.Search(len(ends), func(k int) bool { return !isBad(late(ends[k]), false) })
	if last > 0 {
		part, isKnown = late(ends[last-1]), false
	}
	for k := len(part) - 1; k >= 0; k-- {
		less := append(append([]porcupine.Operation{}, part[:k]...), part[k+1:]...)
		if part[k].Input.(call).what == "get" && isBad(less, isKnown) {
			part = less
		}
	}
	sort.Slice(part, func(i, j int) bool { return part[i].Call < part[j].Call })
	return part
}

func main() {
	seconds, err := 0, error(nil)
	if len(os.Args) == 3 {
		seconds, err = strconv.Atoi(os.Args[1])
	}
	if err != nil || seconds <= 0 {
		fail("usage: judge SECONDS FILE")
	}
	file, err := os.Open(os.Args[2])
	if err != nil {
		fail(err.Error())
	}
	words, names := map[string][]porcupine.Operation{}, []string{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		word, op, err := parse(lines.Text())
		if err != nil {
			fail(err.Error())
		}
		if _, isThere := words[word]; !isThere {
			names = append(names, word)
		}
		words[word] = append(words[word], op)
	}
	if err := lines.Err(); err != nil || len(words) == 0 {
		fail(fmt.Sprintf("no history in %s: %v", os.Args[2], err))
	}
	status, count, patience := 0, 0, time.Duration(seconds)*time.Second
	for _, word := range names {
		history := words[word]
		count += len(history)
		verdict := judge(history, true, patience)
		switch verdict {
		case porcupine.Unknown:
			fmt.Printf("word %s: no verdict within %d s on %d calls\n", word, seconds, len(history))
			if status == 0 {
				status = 2
			}
		case porcupine.Illegal:
			fmt.Printf("word %s: no order explains these of its %d calls\n", word, len(history))
			for _, op := range shortest(history, patience) {
				fmt.Println("  " + op.Input.(call).line)
			}
			status = 1
		}
	}
	fmt.Printf("%d calls on %d words\n", count, len(words))
	os.Exit(status)
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, "judge: "+why)
	os.Exit(2)
}
