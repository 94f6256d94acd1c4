package sides

import (
	"encoding/binary"
	"runtime"

	"lwio/rdma"
)

// sendPingPong sends a message of Size bytes there and back.
func sendPingPong(l *link) error {
	err := l.phases(func(ops int) error {
		for range ops {
			if err := l.turn(l.sendMessage, l.receiveMessage); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.finish()
}

// finish ends a run: the passive side waits for a last message, and the active one until
// the passive one has closed.
func (l *link) finish() error {
	if err := l.asleep(l.Active); err != nil || !l.Active {
		return err
	}
	select {
	case <-l.conn.Done():
		return nil
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

// wordPingPong writes 8 bytes into a word that the peer watches, and watches the word of
// the peer's answer. It polls the completion queue at intervals, to take the results and to
// let the provider make progress.
func wordPingPong(l *link) error {
	const looks = 256 // reads of the word between two polls
	word := wordAt(l.mem, watchedWord)
	value := l.mem[sourceWord : sourceWord+8]
	req := [1]rdma.Request{{Op: rdma.OpWrite, Flags: rdma.FlagInline, Inline: value, Remote: l.at(watchedWord)}}
	last := uint64(0)
	send := func() error {
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
				if i%yield == 0 {
					runtime.Gosched()
				}
			}
		}
		return nil
	}
	err := l.phases(func(ops int) error {
		for range ops {
			last++
			if err := l.turn(send, watch); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.finish()
}
