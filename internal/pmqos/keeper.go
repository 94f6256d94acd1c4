package pmqos

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"
)

// Rest is after how much time without work, at most, a Keeper lifts its limit; half of it
// at least.
const Rest = time.Second

// Keeper sets a limit while there is work. A nil Keeper is one without a limit, and does
// nothing. Safe for concurrent use.
//
// It has one goroutine, which sleeps while there is no work, and looks twice in the time
// of Rest while there is.
type Keeper struct {
	limit   time.Duration
	request *Request // the goroutine's, until that has ended
	touched atomic.Bool
	held    atomic.Bool
	work    chan struct{} // has room for one word that touched was set
	stop    chan struct{}
	done    chan error // what went wrong; sent to once
	closing sync.Once
}

// NewKeeper opens a device, to set a limit there while there is work. A limit of 0 gives a
// nil Keeper, one of less is an error. The caller closes it. If the device does not take what
// it is told, failed is called with the reason, by a goroutine that Close waits for, and
// nothing is kept any more.
//
// The right to do so is needed now and not later.
//
// Errors: those of Open; fs.ErrInvalid.
func NewKeeper(device string, limit time.Duration, failed func(error)) (*Keeper, error) {
	switch {
	case limit == 0:
		return nil, nil //nolint:nilnil // it says so: no limit, nothing to keep
	case limit < 0:
		return nil, fmt.Errorf("limit the CPU latency to %v: it must not be negative: %w", limit, fs.ErrInvalid)
	}
	r, err := Open(device)
	if err != nil {
		return nil, fmt.Errorf("limit the CPU latency: %w", err)
	}
	k := &Keeper{limit: limit, request: r, work: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		err := k.keep()
		if err != nil {
			failed(err)
		}
		k.done <- err
	}()
	return k, nil
}

// Touch says that there is work. Where the limit is set already that costs a load.
func (k *Keeper) Touch() {
	if k != nil && !k.touched.Load() {
		k.touch()
	}
}

func (k *Keeper) touch() {
	if k.touched.Swap(true) {
		return
	}
	select {
	case k.work <- struct{}{}:
	default: // it was not seen yet that it was set before
	}
}

// Held tells whether the limit is set.
func (k *Keeper) Held() bool { return k != nil && k.held.Load() }

// Close takes the limit back and waits until that is done. A second Close does nothing.
//
// Errors: of a device that did not take what it was told, now or before.
func (k *Keeper) Close() (err error) {
	if k == nil {
		return nil
	}
	k.closing.Do(func() {
		close(k.stop)
		err = errors.Join(<-k.done, k.request.Close())
	})
	return err
}

// keep sets and lifts the limit until Close, or until that goes wrong.
func (k *Keeper) keep() error {
	defer k.held.Store(false)
	for {
		select {
		case <-k.stop:
			return nil
		case <-k.work:
		}
		if err := k.request.Set(k.limit); err != nil {
			return err
		}
		k.held.Store(true)
		k.awaitRest()
		k.held.Store(false)
		if err := k.request.Lift(); err != nil {
			return err
		}
	}
}

// awaitRest returns when nobody has touched k between one look and the next, or at Close.
func (k *Keeper) awaitRest() {
	look := time.NewTicker(Rest / 2)
	defer look.Stop()
	for {
		k.touched.Store(false)
		select {
		case <-k.work: // of before
		default:
		}
		select {
		case <-k.stop:
			return
		case <-look.C:
		}
		if !k.touched.Load() {
			return
		}
	}
}
