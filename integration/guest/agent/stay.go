package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"lwio"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
)

// Settings of stay.
const (
	stayBlock  = 4096                 // bytes of a write
	stayBlocks = 64                   // of the file
	stayRounds = 16                   // between two attempts of the other client to take the lock
	stayPause  = 5 * time.Millisecond // after a round: the emulated processors have other work too
	stayReport = 100 * time.Millisecond
	stayTime   = 2 * time.Minute // for which it waits for a server
)

// stay writes blocks of a file of a share, under a lock, and reads them back, until the local file stop exists. It reports
// its rounds, and the connections that it has replaced, in lines. It fails with the first error of a call, and if
// another client gets the lock. It shares memory with a server of any user.
func stay(ctx context.Context, url, name, stop string) (err error) {
	var clients [2]*lwio.Client
	var files [2]*lwio.File
	anyUser := func(uint32) bool { return true }
	for i := range clients {
		providers := []rdma.Provider{shm.New(&shm.Config{AllowUID: anyUser}), iwarp.New(nil)}
		cfg := &lwio.Config{Providers: providers, RequireRDMA: true, Timeout: 2 * stayTime, ReconnectTimeout: stayTime}
		if clients[i], err = lwio.Dial(ctx, url, cfg); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, clients[i].Close()) }()
		if files[i], err = clients[i].OpenFile(ctx, name, os.O_RDWR|os.O_CREATE, 0); err != nil {
			return err
		}
	}
	f, locked := files[0], lwio.Range{Len: stayBlock}
	if err := f.TryLock(ctx, locked, lwio.LockExclusive); err != nil {
		return err
	}
	var reported time.Time
	for round := 1; ; round++ {
		if err := writeAndRead(ctx, f, round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if round%stayRounds == 0 {
			if err := files[1].TryLock(ctx, locked, lwio.LockExclusive); !errors.Is(err, lwio.ErrLocked) {
				return fmt.Errorf("round %d: a lock of another client: %w", round, errors.Join(err, errors.New("it is not refused")))
			}
		}
		time.Sleep(stayPause)
		if time.Since(reported) < stayReport {
			continue
		}
		reported = time.Now()
		fmt.Printf("rounds=%d replaced=%d\n", round, clients[0].Stats().SMBReconnects)
		if _, err := os.Stat(stop); err == nil {
			return errors.Join(f.Unlock(ctx, locked), f.Close(), files[1].Close())
		}
	}
}

// writeAndRead writes a block that differs from that of other rounds, and reads it back.
func writeAndRead(ctx context.Context, f *lwio.File, round int) error {
	want := bytes.Repeat([]byte(fmt.Sprintf("%16d", round)), stayBlock/16)
	got := make([]byte, stayBlock)
	off := int64(round%stayBlocks) * stayBlock
	if _, err := f.WriteAt(want, off); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if round%stayRounds == 0 {
		if err := f.Sync(ctx); err != nil {
			return fmt.Errorf("sync: %w", err)
		}
	}
	if _, err := f.ReadAt(got, off); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if !bytes.Equal(got, want) {
		return errors.New("read: other bytes than were written")
	}
	return nil
}
