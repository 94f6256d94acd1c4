package vfs

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestReferencesWaitUntilReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r references
		if !r.acquire() || !r.held() {
			t.Fatal("a reference is refused")
		}
		r.refuse()
		if r.acquire() {
			t.Error("a reference is taken after refuse")
		}
		if r.release() {
			t.Error("a refused reference is the last")
		}
		if r.wait(time.Second) {
			t.Error("nothing is waited for")
		}
		go func() {
			time.Sleep(time.Second)
			if r.release() {
				t.Error("the last before abandon")
			}
		}()
		if begin := time.Now(); !r.wait(time.Minute) || time.Since(begin) != time.Second {
			t.Errorf("waited %v", time.Since(begin))
		}
		if !r.abandon() {
			t.Error("references are held at the end")
		}
	})
}

// After abandon exactly one release is the last, though refused references come and go.
func TestReferencesLastReleaseAfterAbandon(t *testing.T) {
	var r references
	r.acquire()
	r.acquire()
	r.refuse()
	if r.abandon() {
		t.Error("no reference is held")
	}
	lasts := 0
	for range 2 {
		if r.release() {
			lasts++
		}
	}
	for range 3 {
		r.acquire()
		if r.release() {
			lasts++
		}
	}
	if lasts != 1 {
		t.Errorf("%d last releases", lasts)
	}
}
