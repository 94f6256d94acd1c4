package survive

import (
	"errors"
	"sync"
	"time"

	"lwio"
)

// contest is the lock of a round that one client holds until each other client has been refused it more often than lock
// sequences, which have four bits, have numbers: before and after a loss. Safe for concurrent use.
type contest struct {
	refused func(p *player) error // called by a client between its two streaks of refused attempts

	mu   sync.Mutex   // guards left
	left map[int]bool // clients that make no further attempt, by number
	all  int
}

// streak is the number of attempts, more than the numbers of lock sequences. One of contestEvery rounds has a contest.
const (
	streak       = 20
	contestEvery = 4
)

func newContest(clients int, refused func(p *player) error) *contest {
	return &contest{refused: refused, left: make(map[int]bool), all: clients}
}

// leave notes that a client makes no further attempt.
func (c *contest) leave(client int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[client] = true
}

// over reports whether no client makes a further attempt.
func (c *contest) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.left) == c.all
}

// contend takes the contested lock, or is refused it many times.
func (p *player) contend() error {
	defer p.contest.leave(p.number)
	for again := range 2 {
		for range streak {
			err := p.tryLock(contested)
			if err == nil {
				return p.keep(contested)
			}
			if !errors.Is(err, lwio.ErrLocked) {
				return err
			}
		}
		if again > 0 {
			break
		}
		if err := p.contest.refused(p); err != nil {
			return err
		}
	}
	return nil
}

// keep uses a register whose lock the client has got, and unlocks it after the contest.
func (p *player) keep(register int) error {
	p.contest.leave(p.number)
	if err := p.write(register); err != nil && !errors.Is(err, lwio.ErrUncertain) {
		return p.lockStays(err)
	}
	for !p.contest.over() {
		time.Sleep(noisePause)
	}
	if err := p.read(register); err != nil {
		return p.lockStays(err)
	}
	return p.unlock(register)
}
