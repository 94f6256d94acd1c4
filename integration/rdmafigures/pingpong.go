package main

import (
	"encoding/binary"
	"runtime"

	"lwio/rdma"
)

// sendPingPong sends a message of Size bytes there and back.
func sendPingPong(l *link) error {
	err := l.phases(func(ops int) error {
		for range ops {
			if err := l.turn(l.tell, l.hear); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.part()
}

// turn is one round trip: the active side asks first, the passive one answers.
func (s *side) turn(say, listen func() error) error {
	first, second := say, listen
	if !s.Active {
		first, second = listen, say
	}
	if err := first(); err != nil {
		return err
	}
	return second()
}

// part is the end of a game: the passive side waits for a last message, and the
// active one until the passive one has closed.
func (l *link) part() error {
	if err := l.inPeace(l.Active); err != nil || !l.Active {
		return err
	}
	select {
	case <-l.conn.Done():
		return nil
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

// wordPingPong writes 8 bytes into a word that the peer watches, and watches the
// word that the peer answers in. A look at the completion queue now and then takes
// the results, and lets a provider make progress that needs it.
func wordPingPong(l *link) error {
	const looks = 256 // between two polls
	word := wordAt(l.mem, watchedWord)
	value := l.mem[sourceWord : sourceWord+8]
	req := [1]rdma.Request{{Op: rdma.OpWrite, Flags: rdma.FlagInline, Inline: value, Remote: l.at(watchedWord)}}
	last := uint64(0)
	say := func() error {
		binary.LittleEndian.PutUint64(value, last)
		if l.posts == 0 {
			if _, err := l.take(); err != nil { // the results of the round before
				return err
			}
		}
		return l.post(&req)
	}
	watch := func() error {
		for i := 1; word.Load() != last; i++ {
			if i%looks == 0 {
				if _, err := l.take(); err != nil {
					return err
				}
				if i%noSleep == 0 {
					runtime.Gosched()
				}
			}
		}
		return nil
	}
	err := l.phases(func(ops int) error {
		for range ops {
			last++
			if err := l.turn(say, watch); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.part()
}
