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
	actSync
	actPowerCut // by no client
	actKill     // by no client, of the server; the clients that are away then must return
	actReturn   // of a client to its open file
	actOpen     // of the file by another client
)

func (a action) String() string {
	return [...]string{"read", "write", "lock", "unlock", "sync", "power cut", "kill", "return", "open"}[a]
}

// wholeFile is the number of the file of the registers in a history.
const wholeFile = -1

// call is an operation on a register, or on the file. Registers that are guarded are used under their lock only.
type call struct {
	action   action
	client   int // from 1
	register int
	guarded  bool
	value    uint64 // to write; of a kill, a bit for each client that is away
	boot     int    // power cuts of the history before the file was opened
}

// answer is the result of a call. An unknown one is done at some moment until its end, or not at all.
type answer struct {
	value   uint64 // that was read
	unknown bool
}

// register is the state of a register: its value in the cache of the host and the one on the disk, the client that has
// its lock, or 0, and the number of power cuts. The value of the file has a bit for each client that has not returned to it
// since a kill.
type register struct {
	value, stable uint64
	holder        int
	boot          int
}

// next returns the states that a register may have after a call with this answer. Without one, the answer is
// wrong.
func (r register) next(c call, a answer) []register {
	after := r
	if c.action == actPowerCut {
		return r.powerCut()
	}
	if c.boot != r.boot { // its file has ended with the host: the call has no effect, and fails
		if a.unknown {
			return []register{r}
		}
		return nil
	}
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
		if !a.unknown && after.value != c.value {
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
	case actSync:
		after.stable = r.value
	case actKill:
		after.value = c.value
	case actReturn:
		after.value &^= 1 << c.client
	case actOpen:
		if r.value != 0 {
			return nil
		}
	}
	if a.unknown && after != r {
		return []register{r, after}
	}
	return []register{after}
}

// powerCut returns the states after a loss of power: the disk has the value, or the one of the last sync, and all
// locks have ended.
func (r register) powerCut() []register {
	kept := register{value: r.value, stable: r.value, boot: r.boot + 1}
	return []register{kept, {value: r.stable, stable: r.stable, boot: r.boot + 1}}
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
	boot  int        // power cuts before it began
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

// beginAll records a call on each register of a round, the first of which is the register of the call.
func (h *history) beginAll(c call) (numbers []int) {
	for range registers {
		numbers = append(numbers, h.begin(c))
		c.register++
	}
	return numbers
}

// endAll records the same answer to several calls.
func (h *history) endAll(numbers []int, a answer) {
	for _, i := range numbers {
		h.end(i, a)
	}
}

// returns records a call that is done at some moment from now on.
func (h *history) returns(c call) {
	i := h.begin(c)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list[i].Output = answer{}
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
