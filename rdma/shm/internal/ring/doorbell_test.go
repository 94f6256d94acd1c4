//go:build linux

package ring

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// doorbells makes both sides of a doorbell.
func doorbells(tb testing.TB) (here, there *Doorbell) {
	tb.Helper()
	here, fds, err := NewDoorbell()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(here.Close)
	there, err = OpenDoorbell(fds[0], fds[1])
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(there.Close)
	return here, there
}

// sleep sleeps on a doorbell in a goroutine, and returns when it is about to sleep. If an
// earlier interrupt ends the sleep before it begins, it is repeated.
func sleep(d *Doorbell) (rang chan bool) {
	asleep, rang := make(chan struct{}), make(chan bool, 1)
	d.OnSleep(func() bool { close(asleep); return true })
	go func() {
		prepared, by := false, false
		for !prepared {
			prepared, by, _ = d.Sleep()
		}
		rang <- by
	}()
	<-asleep
	return rang
}

// A ring ends a sleep in either direction, every time.
func TestRingEndsSleep(t *testing.T) {
	here, there := doorbells(t)
	for range 20 {
		for _, pair := range [][2]*Doorbell{{here, there}, {there, here}} {
			rang := sleep(pair[0])
			pair[1].Ring()
			if !<-rang {
				t.Fatal("the sleep ended without a ring")
			}
		}
	}
}

// Sleep returns without sleeping if the function of OnSleep refuses.
func TestSleepAsksFirst(t *testing.T) {
	here, _ := doorbells(t)
	here.OnSleep(func() bool { return false })
	if prepared, rang, err := here.Sleep(); !prepared || rang || err != nil {
		t.Errorf("prepared %v, rang %v: %v", prepared, rang, err)
	}
}

// Interrupt ends a sleep, even on misused sockets. Bytes, endless rings and a shutdown of
// both directions have no effect. A closed doorbell reports an error.
func TestInterruptEndsSleepOnBrokenDoorbell(t *testing.T) {
	here, there := doorbells(t)
	pull := func(f func(fd uintptr)) { _ = there.pull.Control(f) }
	stop, stopped := make(chan struct{}), make(chan struct{})
	for name, harm := range map[string]func(){
		"bytes": func() {
			pull(func(fd uintptr) {
				for unix.Send(int(fd), make([]byte, 1024), unix.MSG_DONTWAIT) == nil {
				}
			})
		},
		"endless rings": func() {
			go func() {
				defer close(stopped)
				for {
					select {
					case <-stop:
						return
					default:
						there.Ring()
					}
				}
			}()
		},
		"shutdown": func() { pull(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) },
	} {
		rang := sleep(here)
		harm()
		here.Interrupt()
		select {
		case <-rang:
		case <-time.After(time.Minute):
			t.Fatalf("%s: the sleep does not end", name)
		}
	}
	close(stop)
	<-stopped
	here.Close()
	here.OnSleep(func() bool { return true })
	if _, _, err := here.Sleep(); err == nil {
		t.Error("a closed doorbell reports no error")
	}
}

// A kernel that reports only the first ring, or none, differs from a kernel that reports
// each ring.
func TestCheckDoorbellsDetectsMissingReports(t *testing.T) {
	if err := CheckDoorbells(); err != nil {
		t.Error(err)
	}
	rung := false
	for name, f := range map[string]func(fd uintptr){
		"never": func(uintptr) {},
		"once": func(fd uintptr) {
			if !rung {
				ring(fd)
			}
			rung = true
		},
	} {
		if err := checkDoorbells(f); !errors.Is(err, ErrNoNotification) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
