package survive

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// action is a kind of operation in a history.
type action uint8

const (
	actRead action = iota
	actWrite
	actLock
	actUnlock
)

func (a action) String() string { return [...]string{"read", "write", "lock", "unlock"}[a] }

// call is an operation on a register. Registers that are guarded are used under their lock only.
type call struct {
	action   action
	client   int // from 1
	register int
	guarded  bool
	value    uint64 // to write
}

// answer is the result of a call. An unknown one is done at some moment until its end, or not at all.
type answer struct {
	value   uint64 // that was read
	unknown bool
}

// register is the state of a register: its value, and the client that has its lock, or 0.
type register struct {
	value  uint64
	holder int
}

// next returns the states that a register may have after a call with this answer. Without one, the answer is
// wrong.
func (r register) next(c call, a answer) []register {
	after := r
	switch c.action {
	case actRead:
		if a.value != r.value || c.guarded && r.holder != c.client {
			return nil
		}
		return []register{r}
	case actWrite:
		after.value = c.value
		if c.guarded && r.holder != c.client {
			after = r // it comes too late, or is wrong
		}
		if !a.unknown && after != (register{c.value, r.holder}) {
			return nil
		}
	case actLock:
		if r.holder != 0 {
			if a.unknown {
				return []register{r}
			}
			return nil
		}
		after.holder = c.client
	case actUnlock:
		if r.holder != c.client {
			if a.unknown {
				return []register{r}
			}
			return nil
		}
		after.holder = 0
	}
	if a.unknown && after != r {
		return []register{r, after}
	}
	return []register{after}
}

// model is the sequential behaviour of registers, for porcupine.
var model = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make(map[int][]porcupine.Operation)
		for _, o := range history {
			i := o.Input.(call).register
			parts[i] = append(parts[i], o)
		}
		var list [][]porcupine.Operation
		for _, part := range parts {
			list = append(list, part)
		}
		return list
	},
	Init: func() []any { return []any{register{}} },
	Step: func(state, input, output any) (after []any) {
		for _, r := range state.(register).next(input.(call), output.(answer)) {
			after = append(after, r)
		}
		return after
	},
	DescribeOperation: func(input, output any) string {
		c, a := input.(call), output.(answer)
		return fmt.Sprintf("client %d: %v register %d, value %d: %+v", c.client, c.action, c.register, c.value, a)
	},
}).ToModel()

// history are the operations of several clients. Safe for concurrent use.
type history struct {
	began time.Time
	mu    sync.Mutex // guards list
	list  []porcupine.Operation
}

func newHistory() *history { return &history{began: time.Now()} }

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// begin records a call, and returns its number.
func (h *history) begin(c call) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, porcupine.Operation{ClientId: c.client, Input: c, Call: h.now(), Output: answer{unknown: true}, Return: math.MaxInt64})
	return len(h.list) - 1
}

// end records the answer to a call.
func (h *history) end(i int, a answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list[i].Output, h.list[i].Return = a, h.now()
}

// refuse removes a call that had no effect.
func (h *history) refuse(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list[i].Input = nil
}

// operations returns the calls.
func (h *history) operations() (list []porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.list {
		if o.Input != nil {
			list = append(list, o)
		}
	}
	return list
}

// wrong returns the calls of the registers whose histories no order explains, sorted by their begin.
func (h *history) wrong() (list []string) {
	for _, part := range model.Partition(h.operations()) {
		if porcupine.CheckOperations(model, part) {
			continue
		}
		for _, o := range part {
			list = append(list, fmt.Sprintf("%v - %v %s", time.Duration(o.Call), time.Duration(o.Return), model.DescribeOperation(o.Input, o.Output)))
		}
	}
	return list
}
