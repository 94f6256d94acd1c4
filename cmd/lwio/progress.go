package main

import (
	"io"
	"os"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress shows the progress of a copy on a terminal, from the first bytes on. Without a
// terminal it does nothing. Messages above the bar go through it too. It is safe for
// concurrent use.
type progress struct {
	w        io.Writer
	terminal bool

	mu    sync.Mutex // guards the fields below
	p     *mpb.Progress
	bar   *mpb.Bar
	total int64
	over  bool
}

// newProgress makes a progress bar if w is a terminal.
func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// startLocked draws the bar; it returns false without a terminal. Precondition: mu is held.
func (p *progress) startLocked() bool {
	if !p.terminal || p.over {
		return false
	}
	if p.p == nil {
		p.p = mpb.New(mpb.WithOutput(p.w), mpb.WithWidth(50))
		p.bar = p.p.AddBar(0,
			mpb.PrependDecorators(decor.CountersKibiByte("% .1f / % .1f")),
			mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageSpeed(decor.SizeB1024(0), "% .1f")),
		)
	}
	return true
}

// expect adds to the bytes to come.
func (p *progress) expect(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.startLocked() {
		p.total += bytes
		p.bar.SetTotal(p.total, false)
	}
}

// add adds to the bytes that arrived.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.startLocked() {
		p.bar.IncrBy(n)
	}
}

// Write prints whole lines above the bar, because the bar overwrites its own line.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.p != nil && !p.over {
		return p.p.Write(b)
	}
	return p.w.Write(b)
}

// finish draws the last state, which is complete only after a successful copy, and releases
// the terminal.
func (p *progress) finish(succeeded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.p == nil || p.over {
		return
	}
	p.over = true
	if succeeded {
		p.bar.SetTotal(-1, true)
	} else {
		p.bar.Abort(false)
	}
	p.p.Wait()
}
